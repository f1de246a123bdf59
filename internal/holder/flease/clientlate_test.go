package flease_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestASocketThatIsAboutToAppear: a client waits for a peer that is about to listen, until its caller's deadline,
// or five seconds without one. It does not wait for what no start of a peer mends.
func TestASocketThatIsAboutToAppear(t *testing.T) {
	inLab(t, 1, brief, func(l *lab) {
		h := l.peers[0]
		dial := l.net.Dialer(l.w.Start("late"))
		for what, tt := range map[string]struct {
			err   error // of the dial before the peer listens
			after time.Duration
			limit time.Duration // of the caller; 0: none
			took  time.Duration
			fails bool
		}{
			"no socket yet":              {syscall.ENOENT, 4 * time.Second, 0, 4 * time.Second, false},
			"a socket of a former peer":  {syscall.ECONNREFUSED, 4 * time.Second, 0, 4 * time.Second, false},
			"a patient caller":           {syscall.ENOENT, 55 * time.Second, time.Minute, 55 * time.Second, false},
			"never":                      {syscall.ENOENT, time.Hour, 0, 5 * time.Second, true},
			"never, and the caller goes": {syscall.ENOENT, time.Hour, 2 * time.Second, 2 * time.Second, true},
			"no right to it":             {syscall.EACCES, time.Hour, 0, 0, true},
		} {
			began := time.Now()
			ctx, cancel := context.Background(), func() {}
			if tt.limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.limit)
			}
			c, err := engine.Await(ctx, engine.ClientConfig{Socket: "h1:1", Clock: h.mono, Dial: func(ctx context.Context, path string) (net.Conn, error) {
				if time.Since(began) < tt.after {
					return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", tt.err)}
				}
				return dial(ctx, path)
			}})
			cancel()
			if took := time.Since(began); took < tt.took || took > tt.took+100*time.Millisecond || (err != nil) != tt.fails {
				t.Errorf("%s: after %v: %v; want after %v, and an error: %v", what, took, err, tt.took, tt.fails)
			}
			if err == nil {
				c.Close()
			} else if !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, tt.err) || !strings.Contains(err.Error(), "no peer listens at h1:1") || !strings.Contains(err.Error(), "`tenure peer --listen h1:1` starts one") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestASocketThatAppears: a client waits for a socket of this machine.
func TestASocketThatAppears(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, brief)
	s := c.socket(0)
	gone := s.path + ".old"
	if err := os.Rename(s.path, gone); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Connect(t.Context(), engine.ClientConfig{Socket: s.path}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is no socket, and to connect ends with %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := engine.Dial(t.Context(), s.path)
		if err == nil {
			err = l.Close()
		}
		got <- err
	}()
	if err := os.Rename(gone, s.path); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}
