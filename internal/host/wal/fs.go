package wal

import (
	"io"
	"io/fs"
	"os"
)

// FS is what the log needs of a file system: the one place where tests put
// faults. Paths are those of the host.
type FS interface {
	MkdirAll(dir string) error
	OpenFile(path string, flag int, perm fs.FileMode) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	// ReadDir returns the names in a directory, sorted.
	ReadDir(dir string) ([]string, error)
	// SyncDir makes creations, renames and removals in a directory durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock without waiting; ErrLocked if another
	// process has it. Closing gives it back.
	Lock(path string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Preallocate makes the file at least size bytes long, the new bytes being
	// zeros, and reserves the space where the file system can.
	Preallocate(size int64) error
	// Sync makes the contents durable, with what is needed to read them back.
	Sync() error
}

// OS is the host's file system.
type OS struct{}

var _ FS = OS{}

// MkdirAll makes a directory and its parents, for this user only.
func (OS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

// OpenFile opens or creates a file.
func (OS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename renames a file, replacing one of that name.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove removes a file.
func (OS) Remove(path string) error { return os.Remove(path) }

// ReadDir returns the names in a directory, sorted.
func (OS) ReadDir(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// SyncDir makes the entries of a directory durable.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// extend lengthens a file without reserving space.
func (f osFile) extend(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	return f.Truncate(size)
}
