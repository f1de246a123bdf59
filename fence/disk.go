package fence

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// disk is what a File needs of the host.
type disk interface {
	// lock opens the file at path, which it makes if there is none, and waits until no one
	// else has it. Close gives it back.
	lock(path string) (lockFile, error)
	read(path string) ([]byte, error)
	// create makes the file at path, or empties it.
	create(path string) (newFile, error)
	rename(from, to string) error
	// syncDir makes the names in a directory durable.
	syncDir(path string) error
}

type newFile interface {
	io.WriteCloser
	Sync() error
}

type lockFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}

// host is the real one.
type host struct{}

func (host) lock(path string) (lockFile, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if err == nil {
			return file, nil
		}
		if err != unix.EINTR {
			file.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
	}
}

func (host) read(path string) ([]byte, error) { return os.ReadFile(path) }
func (host) rename(from, to string) error     { return os.Rename(from, to) }
func (host) create(path string) (newFile, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
}

func (host) syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
