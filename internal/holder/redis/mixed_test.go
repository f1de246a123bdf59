package redis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/host/register"
)

// TestServersOfTwoSets are no set, though there are as many as each has.
func TestServersOfTwoSets(t *testing.T) {
	t.Parallel()
	_, one := servers(t, 3)
	_, other := servers(t, 3)
	one.Addrs[1] = other.Addrs[1]
	l, err := engine.Open(t.Context(), one)
	if err == nil {
		l.Close()
	}
	if !errors.Is(err, register.ErrMismatch) {
		t.Errorf("opened servers of two sets: %v, want %v", err, register.ErrMismatch)
	}
}

// TestTheOnlyServer: its error is returned as it is, and counts no servers.
func TestTheOnlyServer(t *testing.T) {
	t.Parallel()
	gone := engine.Host(t)
	addr := gone.Addr()
	gone.Close()
	if _, err := engine.Open(t.Context(), engine.Config{Addrs: []string{addr}}); err == nil || !strings.HasPrefix(err.Error(), "redis "+addr) {
		t.Errorf("nobody is there: %v", err)
	}
}

// TestHealthOfWhatIsClosed: a question to a closed Leaser is answered with that.
func TestHealthOfWhatIsClosed(t *testing.T) {
	t.Parallel()
	_, cfg := servers(t, 1)
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if h, err := l.Health(t.Context(), "x"); !errors.Is(err, tenure.ErrClosed) {
		t.Errorf("of what is closed: %+v, %v", h, err)
	}
}
