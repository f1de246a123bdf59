package waltest

import (
	"errors"
	"io"
)

// file is an open file. Its inode is guarded by the disk's lock.
type file struct {
	fs   *FS
	path string
	ino  *inode
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	leave, err := f.fs.enter("read", f.path)
	if err != nil {
		return 0, err
	}
	defer leave()
	n := 0
	if off < int64(len(f.ino.data)) {
		n = copy(b, f.ino.data[off:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes all of b, or its first half when Fault fails it or kills the
// process.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	disk := f.fs.disk
	disk.mu.Lock()
	alive := f.fs.alive()
	disk.mu.Unlock()
	leave, err := f.fs.enter("write", f.path)
	if err == nil {
		defer leave()
		f.put(b, off)
		return len(b), nil
	}
	disk.mu.Lock()
	defer disk.mu.Unlock()
	if !alive || f.fs.boot != disk.boot { // it died earlier, or the crash is over
		return 0, err
	}
	f.put(b[:len(b)/2], off)
	return len(b) / 2, err
}

func (f *file) put(b []byte, off int64) {
	f.grow(off + int64(len(b)))
	copy(f.ino.data[off:], b)
	f.ino.soil(int(off), int(off)+len(b))
}

func (f *file) grow(size int64) {
	if n := int(size) - len(f.ino.data); n > 0 {
		f.ino.data = append(f.ino.data, make([]byte, n)...)
	}
}

func (f *file) Size() (int64, error) {
	leave, err := f.fs.enter("size", f.path)
	if err != nil {
		return 0, err
	}
	defer leave()
	return int64(len(f.ino.data)), nil
}

func (f *file) Truncate(size int64) error {
	leave, err := f.fs.enter("truncate", f.path)
	if err != nil {
		return err
	}
	defer leave()
	if size > int64(len(f.ino.data)) {
		return errors.New("waltest: Truncate makes files shorter only")
	}
	f.ino.soil(int(size), len(f.ino.data))
	f.ino.data = f.ino.data[:size:size]
	return nil
}

func (f *file) Preallocate(size int64) error {
	leave, err := f.fs.enter("preallocate", f.path)
	if err != nil {
		return err
	}
	defer leave()
	f.grow(size)
	return nil
}

func (f *file) Sync() error {
	leave, err := f.fs.enter("sync", f.path)
	if err != nil {
		return err
	}
	defer leave()
	f.ino.clean()
	return nil
}

// Close makes nothing durable, and never fails.
func (f *file) Close() error {
	f.fs.disk.mu.Lock()
	defer f.fs.disk.mu.Unlock()
	delete(f.fs.open, f)
	return nil
}
