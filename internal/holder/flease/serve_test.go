package flease_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// faltering is a listener whose Accept fails for a while.
type faltering struct {
	net.Listener
	fails atomic.Int32
}

func (f *faltering) Accept() (net.Conn, error) {
	if f.fails.Add(-1) >= 0 {
		return nil, syscall.EMFILE
	}
	return f.Listener.Accept()
}

// TestServesOn: a peer that cannot accept a client logs it, and serves the next ones. Serve returns nil
// when the listener is closed, and the reason if the peer has ended.
func TestServesOn(t *testing.T) {
	var log lockedBuffer
	cfg := brief
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	inLab(t, 1, cfg, func(l *lab) {
		h := l.peers[0]
		serve := func(port int) (net.Listener, chan error) {
			listener, err := l.net.Listen(h.p, port)
			if err != nil {
				t.Fatal(err)
			}
			f := &faltering{Listener: listener}
			f.fails.Store(20)
			served := make(chan error, 1)
			go func() { served <- h.Serve(f) }()
			return f, served
		}
		listener, served := serve(2)
		time.Sleep(time.Second)
		if n := strings.Count(log.String(), "cannot accept clients"); n < 5 || n > 15 {
			t.Errorf("in a second without descriptors the log has %d lines about it", n)
		}
		time.Sleep(5 * time.Second)
		select {
		case err := <-served:
			t.Errorf("no descriptor for a while, and the peer serves no more: %v", err)
			return
		default:
		}
		c, err := engine.Connect(context.Background(), engine.ClientConfig{Socket: "h1:2", Dial: l.net.Dialer(l.w.Start("c")), Clock: h.mono})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Status(context.Background()); err != nil {
			t.Error(err)
		}
		c.Close()
		listener.Close()
		if err := <-served; err != nil {
			t.Errorf("the listener is closed, and Serve returns %v", err)
		}
		_, served = serve(3)
		h.Peer.Close()
		if err := <-served; !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("the peer is closed, and Serve returns %v", err)
		}
	})
}

// TestPathsForNoSocket: a path that cannot be a socket's is refused with a reason, and a file at the
// path is left alone.
func TestPathsForNoSocket(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, strings.Repeat("l", 90))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                              "is no socket: choose another path",
		filepath.Join(dir, "a", "b", "s"): "no such file",
		filepath.Join(file, "s"):          "not a directory",
		filepath.Join(long, "s"):          "is too long for a socket",
	} {
		l, err := engine.ListenSocket(path, 0o600)
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "flease: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("listen at %s: %v, want %q", path, err, want)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "somebody's" {
		t.Errorf("what is no socket was touched: %q, %v", b, err)
	}
	for _, d := range []string{dir, long} {
		left, err := os.ReadDir(d)
		for _, e := range left {
			if strings.HasPrefix(e.Name(), ".s") {
				t.Errorf("a failed listen has left %s in %s, %v", e.Name(), d, err)
			}
		}
	}
	l, err := engine.ListenSocket(filepath.Join(dir, "made", "s"), 0o600)
	if err != nil {
		t.Fatalf("only the directory is missing: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestALockedDirectory: a peer that starts waits for others that start, but not for ever.
func TestALockedDirectory(t *testing.T) {
	dir := shortDir(t)
	other, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Skipf("directories are not locked here: %v", err)
	}
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		l, err := engine.ListenSocket(filepath.Join(dir, "s"), 0o600)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "another process has locked") || took < 5*time.Second || took > time.Minute {
			t.Errorf("the directory is locked by another, and after %v: %v", took, err)
		}
		if err == nil {
			l.Close()
		}
	})
	bubble.Test(t, func(t *testing.T) {
		time.AfterFunc(3*time.Second, func() { _ = unix.Flock(int(other.Fd()), unix.LOCK_UN) })
		l, err := engine.ListenSocket(filepath.Join(dir, "s"), 0o600)
		if err != nil {
			t.Fatalf("the other has listened, and is done with it: %v", err)
		}
		l.Close()
	})
}
