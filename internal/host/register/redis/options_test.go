package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// TestAddresses: a host alone is at port 6379, and a path is a Unix socket.
func TestAddresses(t *testing.T) {
	for given, want := range map[string]string{
		"host": "tcp host:6379", "host:1": "tcp host:1", "[::1]:1": "tcp [::1]:1", "::1": "tcp [::1]:6379", "[::1]": "tcp [::1]:6379",
		"/run/redis.sock": "unix /run/redis.sock",
	} {
		c := (&Options{Addr: given}).client(time.Second, nil)
		if got := c.Options().Network + " " + c.Options().Addr; got != want {
			t.Errorf("%q is at %s, want %s", given, got, want)
		}
		c.Close()
	}
}

// TestNobodyIsWaitedForLonger: Open waits five seconds for an answer, or as long as the
// context says; a store waits as long as the header says. Nobody tries twice.
func TestNobodyIsWaitedForLonger(t *testing.T) {
	for name, tt := range map[string]struct {
		server func(net.Conn) // nil for one that takes no connection
	}{
		"no connection":   {nil},
		"reads nothing":   {func(net.Conn) {}},
		"answers nothing": {func(c net.Conn) { io.Copy(io.Discard, c) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var dials atomic.Int32
			var served sync.WaitGroup
			var conns []net.Conn
			o := Options{Addr: "host:1", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				dials.Add(1)
				if tt.server == nil {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				ours, theirs := net.Pipe()
				mu.Lock()
				conns = append(conns, theirs)
				mu.Unlock()
				served.Go(func() { tt.server(theirs) })
				return ours, nil
			}}
			after := func(who string, want time.Duration, call func() error) {
				t.Helper()
				began, before := time.Now(), dials.Load()
				if err := call(); err == nil || time.Since(began) != want || dials.Load() != before+1 {
					t.Errorf("%s, which %s: after %v and %d connections %v; want %v and one", who, name, time.Since(began), dials.Load()-before, err, want)
				}
			}
			s := newStore(o, header(0, 1), "seal")
			for _, ends := range []bool{false, true} {
				ctx, want := context.Background(), opening
				if ends {
					want = time.Second
				}
				calls := map[string]func(context.Context) error{
					"Open": func(ctx context.Context) error { _, err := Open(ctx, o); return err },
					"Find": func(ctx context.Context) error { _, err := Find(ctx, o); return err },
					"Init": func(ctx context.Context) error { return Init(ctx, o, header(0, 1)) },
				}
				for who, call := range calls {
					if ends {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(context.Background(), want)
						defer cancel()
					}
					after(who, want, func() error { return call(ctx) })
				}
			}
			after("Do", patience(header(0, 1)), func() error { return s.Do([]register.Op{query("x")})[0].Err })
			after("Names", patience(header(0, 1)), func() error { _, err := s.Names(); return err })
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			for _, c := range conns {
				c.Close()
			}
			served.Wait()
		})
	}
}

// TestStoresAreClosed: a closed store asks no server any more.
func TestStoresAreClosed(t *testing.T) {
	_, s := made(t, 0, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Do([]register.Op{query("x")})[0].Err; err == nil {
		t.Error("a store that is closed answers")
	}
	if _, err := s.Names(); err == nil || errors.Is(err, register.ErrGone) {
		t.Errorf("the names of a store that is closed: %v", err)
	}
}
