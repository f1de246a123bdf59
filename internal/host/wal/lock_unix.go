//go:build unix && !solaris && !illumos && !aix

package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock takes a flock, which the kernel gives back when the process dies. The
// file holds the process ID, for the message of a process that finds it locked.
func (OS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid, _ := io.ReadAll(io.LimitReader(f, 20))
		f.Close()
		return nil, fmt.Errorf("wal: %s is locked by process %s: stop that process, or use another data directory: %w",
			path, strings.TrimSpace(string(pid)), ErrLocked)
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintln(f, os.Getpid()) // only for people: no harm if it fails
	}
	return f, nil
}
