package redis_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

// TestWhatASetAgreesOn: Init returns it, whichever of the stores it asks, and every store has it
// with a place of its own.
func TestWhatASetAgreesOn(t *testing.T) {
	t.Parallel()
	cfg := engine.Config{Addrs: []string{engine.Host(t).Addr(), engine.Host(t).Addr(), engine.Host(t).Addr()}}
	h, err := engine.Init(t.Context(), cfg, storage.Spec{Term: term, Delay: delay})
	if err != nil || h.Of != 3 || h.Index != 0 || h.Term != term || h.Delay != delay {
		t.Errorf("made %+v, %v", h, err)
	}
	for i, addr := range cfg.Addrs {
		want := h
		want.Index = i
		if got, err := redis.Find(t.Context(), redis.Options{Addr: addr}); got != want || err != nil {
			t.Errorf("store %d is %+v, %v; want %+v", i, got, err, want)
		}
	}
	cfg.Addrs[0], cfg.Addrs[2] = cfg.Addrs[2], cfg.Addrs[0] // in any order
	l, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Header() != h {
		t.Errorf("opened %+v, want %+v", l.Header(), h)
	}
	health, err := l.Health(t.Context(), "x")
	if err != nil || len(health) != 3 {
		t.Fatalf("%+v, %v", health, err)
	}
	for i, had := range health {
		if had.Addr != cfg.Addrs[2-i] || had.Err != nil {
			t.Errorf("store %d is at %s (%v), want %s", i, had.Addr, had.Err, cfg.Addrs[2-i])
		}
	}
}

// TestSetsThatCannotBeMade leave nothing behind.
func TestSetsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	blank, gone := engine.Host(t), engine.Host(t)
	away := gone.Addr()
	gone.Close()
	for name, tt := range map[string]struct {
		addrs []string
		spec  storage.Spec
		says  string
	}{
		"no server":                {nil, storage.Spec{}, "no server is given"},
		"one that does not answer": {[]string{blank.Addr(), away}, storage.Spec{}, "refused"},
		"a δ beyond the term":      {[]string{blank.Addr()}, storage.Spec{Term: time.Second, Delay: time.Second}, "too short for accesses"},
	} {
		h, err := engine.Init(t.Context(), engine.Config{Addrs: tt.addrs}, tt.spec)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %+v, %v; want %q", name, h, err, tt.says)
		}
		if keys := blank.Keys(); len(keys) > 0 {
			t.Errorf("%s: a part of a set was made: %q", name, keys)
		}
	}
}

// TestAHalfMadeSetIsTold: a server that goes away while a set is made is told.
func TestAHalfMadeSetIsTold(t *testing.T) {
	t.Parallel()
	here, goes := engine.Host(t).Addr(), engine.Host(t).Addr()
	away := errors.New("it went away")
	dialed := 0
	cfg := engine.Config{Addrs: []string{here, goes}, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == goes {
			if dialed++; dialed > 8 {
				return nil, away
			}
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	if h, err := engine.Init(t.Context(), cfg, storage.Spec{Term: term, Delay: delay}); !errors.Is(err, away) {
		t.Errorf("made %+v, %v; want %v", h, err, away)
	}
}

// TestWhereStateIsKept: observations of holders are kept where the Config says, by default where
// users expect them.
func TestWhereStateIsKept(t *testing.T) {
	home, given := t.TempDir(), t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	t.Chdir(t.TempDir())
	kept := func(dir string) (n int) {
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return nil
		})
		return n
	}
	_, cfg := servers(t, 1)
	holder, err := engine.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := holder.Acquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{given, ""} {
		cfg.State = state
		l, err := engine.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
		if !errors.As(err, new(tenure.HeldError)) {
			t.Errorf("of what is held: %v", err)
		}
		l.Close()
		if there, here := kept(given), kept(storage.StateDir()); there != 1 || (here == 1) != (state == "") {
			t.Errorf("with the state %q there are %d files in the place that was given, and %d in the default one", state, there, here)
		}
	}
}
