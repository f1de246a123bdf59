package wal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Preallocate reserves the space, so that a write within it neither runs out of
// space nor changes the file's size, which would make each sync dearer.
func (f osFile) Preallocate(size int64) error {
	return f.reserve(size, func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
}

// reserve does without where the file system cannot.
func (f osFile) reserve(size int64, fallocate func() error) error {
	err := retry(fallocate)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.extend(size)
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// Sync leaves out what is not needed to read the file back, such as its times.
func (f osFile) Sync() error {
	if err := retry(func() error { return unix.Fdatasync(int(f.Fd())) }); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// retry goes on when a signal came between, which is no failure.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
