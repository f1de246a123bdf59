package waltest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tenure-lease/tenure/internal/host/wal"
)

// ErrCrashed is what the calls of a process get after Kill or Crash.
var ErrCrashed = errors.New("the machine has crashed")

// FS is a Disk as one process sees it, until the machine crashes.
type FS struct {
	// Fault, if set, is called before each call and fails it with its error; nil
	// lets it happen. It is called with no lock held and may block. Operations
	// are mkdir, open, rename (path: the new name), remove, readdir, syncdir,
	// lock, unlock, and of files read, write, size, truncate, preallocate and
	// sync. Set it while no call is under way.
	Fault func(op, path string) error

	disk *Disk
	boot int
	open map[*file]struct{} // guarded by the disk's lock
}

var _ wal.FS = (*FS)(nil)

// enter begins a call: it takes the disk's lock, unless the call fails.
func (f *FS) enter(op, path string) (leave func(), err error) {
	if f.Fault != nil {
		if err := f.Fault(op, path); err != nil {
			return nil, err
		}
	}
	f.disk.mu.Lock()
	if !f.alive() {
		f.disk.mu.Unlock()
		return nil, ErrCrashed
	}
	return f.disk.mu.Unlock, nil
}

// alive reports whether the process has not died. The lock is held.
func (f *FS) alive() bool { return f.boot == f.disk.boot && !f.disk.dead }

// MkdirAll makes a directory, which a crash leaves.
func (f *FS) MkdirAll(dir string) error {
	leave, err := f.enter("mkdir", dir)
	if err != nil {
		return err
	}
	defer leave()
	f.disk.at(dir)
	return nil
}

// OpenFile opens a file, and makes or empties it as the os package's flags say. It makes none that
// others than the user may read: nobody who uses this disk has any for them.
func (f *FS) OpenFile(path string, flag int, perm fs.FileMode) (wal.File, error) {
	leave, err := f.enter("open", path)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, ino := f.disk.find(path)
	if ino != nil && ino.sub != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	}
	if ino == nil {
		if flag&os.O_CREATE == 0 {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		if perm&0o077 != 0 {
			return nil, fmt.Errorf("%s would be for others than the user, too: %v", path, perm)
		}
		ino = &inode{}
		d.change(func(names map[string]*inode) { names[filepath.Base(path)] = ino })
	}
	if flag&os.O_TRUNC != 0 {
		ino.soil(0, len(ino.data))
		ino.data = nil
	}
	opened := &file{f, path, ino}
	f.open[opened] = struct{}{}
	return opened, nil
}

// Open are the paths by which the process has files open, in order: one path for each time.
func (f *FS) Open() []string {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	paths := []string{}
	for file := range f.open {
		paths = append(paths, file.path)
	}
	slices.Sort(paths)
	return paths
}

// Rename renames a file or a directory, within its directory or to another.
func (f *FS) Rename(from, to string) error {
	leave, err := f.enter("rename", to)
	if err != nil {
		return err
	}
	defer leave()
	d, ino := f.disk.find(from)
	if ino == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	move(ino, d, filepath.Base(from), f.disk.at(filepath.Dir(to)), filepath.Base(to))
	return nil
}

// Remove removes a file, or a directory that is empty.
func (f *FS) Remove(path string) error {
	leave, err := f.enter("remove", path)
	if err != nil {
		return err
	}
	defer leave()
	d, ino := f.disk.find(path)
	if ino == nil {
		return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
	}
	if ino.sub != nil && len(ino.sub.names) > 0 {
		return &fs.PathError{Op: "remove", Path: path, Err: syscall.ENOTEMPTY}
	}
	d.change(func(names map[string]*inode) { delete(names, filepath.Base(path)) })
	return nil
}

// ReadDir returns the names in a directory, sorted.
func (f *FS) ReadDir(dir string) ([]string, error) {
	leave, err := f.enter("readdir", dir)
	if err != nil {
		return nil, err
	}
	defer leave()
	if d := f.disk.look(dir); d != nil {
		return slices.Sorted(maps.Keys(d.names)), nil
	}
	return nil, nil
}

// SyncDir makes the changes to a directory durable.
func (f *FS) SyncDir(dir string) error {
	leave, err := f.enter("syncdir", dir)
	if err != nil {
		return err
	}
	defer leave()
	f.disk.at(dir).sync()
	return nil
}

// Lock takes a lock that ends with its Close or with a crash.
func (f *FS) Lock(path string) (io.Closer, error) {
	leave, err := f.enter("lock", path)
	if err != nil {
		return nil, err
	}
	defer leave()
	if f.disk.lock[path] {
		return nil, wal.ErrLocked
	}
	f.disk.lock[path] = true
	return lock{f, path}, nil
}

type lock struct {
	fs   *FS
	path string
}

func (l lock) Close() error {
	leave, err := l.fs.enter("unlock", l.path)
	if err != nil {
		return err
	}
	defer leave()
	delete(l.fs.disk.lock, l.path)
	return nil
}
