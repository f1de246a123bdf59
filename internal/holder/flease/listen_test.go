package flease

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// staleSocket returns the path of a socket at which no process listens any more.
func staleSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flease") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "peer.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	return path
}

func dialOnce(path string) error {
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	}
	return err
}

// TestTwoStartOverOneStaleSocket: a peer that has found a stale socket must not remove a socket that
// another peer has put there since. A peer that comes between the two steps waits.
func TestTwoStartOverOneStaleSocket(t *testing.T) {
	path := staleSocket(t)
	second, err := listenSocket(path, 0o600, func(path string) error {
		stale := dialOnce(path)
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil { // nothing keeps the first from going on
			_ = unix.Flock(int(dir.Fd()), unix.LOCK_UN)
			first, err := listenSocket(path, 0o600, dialOnce)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { first.Close() })
			t.Error("two peers start over one stale socket, and the second removes that of the first")
		}
		return stale
	})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := ListenSocket(path, 0o600); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("where a peer listens: %v", err)
	}
	if err := dialOnce(path); err != nil {
		t.Errorf("nobody listens any more: %v", err)
	}
}

// TestSocketOfABusyPeer: a peer that is slow to accept a connection lives, and keeps its socket.
func TestSocketOfABusyPeer(t *testing.T) {
	path := staleSocket(t)
	for name, busy := range map[string]error{
		"too many wait":  os.NewSyscallError("connect", syscall.EAGAIN),
		"no answer":      os.ErrDeadlineExceeded,
		"another user's": os.NewSyscallError("connect", syscall.EACCES),
	} {
		l, err := listenSocket(path, 0o600, func(string) error { return busy })
		if err == nil {
			l.Close()
		}
		if _, gone := os.Lstat(path); gone != nil || !errors.Is(err, busy) {
			t.Fatalf("%s: the socket of a peer that may live is taken from it: %v, %v; want %v", name, gone, err, busy)
		}
	}
}
