package file

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// FS has the calls of a file system that a directory of leases needs. Each method is a system call,
// or a few that need not be atomic. Errors are those of package os.
type FS interface {
	// Open opens a file, with the flags of package os and of the system: O_SYNC and
	// O_DIRECT are among them.
	Open(path string, flags int, perm fs.FileMode) (File, error)
	// Names lists a directory, in order, in one look if the host can.
	Names(dir string) ([]string, error)
	Stat(path string) (Info, error)
	Lstat(path string) (Info, error)
	Mkdir(path string, perm fs.FileMode) error
	Chmod(path string, perm fs.FileMode) error
	Link(from, to string) error // fails if to exists
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir returns when the names in a directory are safe from a power loss.
	SyncDir(dir string) error
	// Writable returns why names in a directory cannot be changed.
	Writable(dir string) error
	// Probe returns why hosts that share a file could not rely on each other's writes.
	Probe(path string) error
}

// File is a file that an FS has opened.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (Info, error)
	Sync() error
	// Local reports whether only processes of this machine's kernel can have the file open, so that
	// a lock tells of all of them.
	Local() bool
	// Lock locks the file for this opening of it, and reports false if another opening has a lock
	// that excludes this one. The lock lasts until the last copy of the descriptor is closed.
	Lock(shared bool) (bool, error)
	// Inherit gives processes that this one starts from now on a copy of the descriptor.
	Inherit() error
}

// Info is a file system's description of a file. The ident is no other file's while it exists.
type Info struct {
	Ident [2]uint64
	Size  int64
	Mode  fs.FileMode
}

// OS is this host's file system, the default of Options.FS.
var OS FS = hostFS{}

type hostFS struct{}

func (hostFS) Open(path string, flags int, perm fs.FileMode) (File, error) {
	f, err := openFlags(path, flags, perm)
	if err != nil {
		return nil, err
	}
	if flags&os.O_CREATE != 0 {
		if err := f.Chmod(perm); err != nil { // past the umask: users of the directory share its files
			f.Close()
			return nil, err
		}
	}
	return hostFile{f}, nil
}

func (hostFS) Names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	fd := int(d.Fd()) // once: each call of Fd is a system call
	var names []string
	buf := make([]byte, 1<<16) // about a thousand handles in one call
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "list", Path: dir, Err: err}
		}
		if n == 0 {
			sort.Strings(names)
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

func (hostFS) Stat(path string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Info{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return infoOf(&st), nil
}

func (hostFS) Lstat(path string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return Info{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return infoOf(&st), nil
}

func (hostFS) Mkdir(path string, perm fs.FileMode) error { return os.Mkdir(path, perm) }
func (hostFS) Chmod(path string, perm fs.FileMode) error { return os.Chmod(path, perm) }
func (hostFS) Link(from, to string) error                { return os.Link(from, to) }
func (hostFS) Rename(from, to string) error              { return os.Rename(from, to) }
func (hostFS) Remove(path string) error                  { return os.Remove(path) }
func (hostFS) Probe(path string) error                   { return probe(path) }

func (hostFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (hostFS) Writable(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "write to", Path: dir, Err: err}
	}
	return nil
}

type hostFile struct{ *os.File }

func (f hostFile) Stat() (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Info{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return infoOf(&st), nil
}

func (f hostFile) Local() bool { return local(int(f.Fd())) }

func (f hostFile) Lock(shared bool) (bool, error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

func (f hostFile) Inherit() error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		return &os.PathError{Op: "inherit", Path: f.Name(), Err: err}
	}
	return nil
}

// WriteAt returns when the bytes are safe from a power loss.
func (f hostFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if err == nil {
		err = settle(f.File)
	}
	return n, err
}

func infoOf(st *unix.Stat_t) Info {
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	default:
		mode |= fs.ModeIrregular
	}
	return Info{Ident: [2]uint64{uint64(st.Dev), st.Ino}, Size: st.Size, Mode: mode}
}

// exists reports whether a path leads to anything.
func exists(sys FS, path string) (bool, error) {
	_, err := sys.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
