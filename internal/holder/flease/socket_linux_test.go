package flease_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// TestASocketNeverHasAnotherMode: at its path the socket has the requested mode from the first moment
// on. The test watches all changes of names in the directory by inotify.
func TestASocketNeverHasAnotherMode(t *testing.T) {
	dir := shortDir(t)
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		t.Skipf("inotify: %v", err)
	}
	defer syscall.Close(fd)
	if _, err := syscall.InotifyAddWatch(fd, dir, syscall.IN_CREATE|syscall.IN_ATTRIB|syscall.IN_MOVED_TO); err != nil {
		t.Skipf("inotify: %v", err)
	}
	path := filepath.Join(dir, "peer.sock")
	for _, mode := range []os.FileMode{0o600, 0o666} { // the second time over the stale socket
		l, err := engine.ListenSocket(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("the socket's mode is %v, want %v (%v)", st.Mode().Perm(), mode, err)
		}
		if l.Addr().String() != path {
			t.Errorf("it listens at %v", l.Addr())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("after Close there are %v, %v", left, err)
		}
	}
	created, buf := 0, make([]byte, 1<<16)
	n, err := syscall.Read(fd, buf)
	if err != nil {
		t.Fatal(err)
	}
	for p := buf[:n]; len(p) > 0; {
		mask, size := binary.NativeEndian.Uint32(p[4:]), binary.NativeEndian.Uint32(p[12:])
		name := string(bytes.TrimRight(p[16:16+size], "\x00"))
		p = p[16+size:]
		switch {
		case name != "peer.sock":
		case mask&syscall.IN_ATTRIB != 0:
			t.Error("the socket's mode is changed when strangers can reach it already")
		default:
			created++
		}
	}
	if created != 2 {
		t.Errorf("the socket was made %d times, by what the kernel tells, want 2", created)
	}
}
