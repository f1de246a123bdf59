package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// files is what a store needs of the host: the one place where tests put faults.
type files interface {
	// names lists a directory, sorted, in one look if the host can.
	names(dir string) ([]string, error)
	// open opens a file to read, or to write as well. Each access goes past this
	// host's caches if the store is shared, and each write is durable when it ends.
	open(path string, write bool) (file, error)
	// create makes a file that does not exist.
	create(path string, perm os.FileMode) (file, error)
	stat(path string) (info, error)
	link(from, to string) error // fails if to exists
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	stat() (info, error)
	sync() error
}

// info is what the host says of a file. The ident is no other file's while it exists.
type info struct {
	ident [2]uint64
	size  int64
	plain bool // a regular file
}

// host is the real one.
type host struct{ buffered bool }

func (h host) names(dir string) ([]string, error) {
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

func (h host) open(path string, write bool) (file, error) {
	how := os.O_RDONLY
	if write {
		how = os.O_RDWR
	}
	// Not to block on what is no file at all.
	f, err := openPast(path, how|unix.O_NONBLOCK, 0, h.buffered)
	if err != nil {
		return nil, err
	}
	return hostFile{f}, nil
}

func (h host) create(path string, perm os.FileMode) (file, error) {
	f, err := openPast(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm, h.buffered)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(perm); err != nil { // past the umask: those who share the directory share its files
		f.Close()
		return nil, err
	}
	return hostFile{f}, nil
}

func (h host) stat(path string) (info, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return info{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return infoOf(&st), nil
}

func (h host) link(from, to string) error   { return os.Link(from, to) }
func (h host) rename(from, to string) error { return os.Rename(from, to) }
func (h host) remove(path string) error     { return os.Remove(path) }

func (h host) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type hostFile struct{ *os.File }

func (f hostFile) stat() (info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return info{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return infoOf(&st), nil
}

func (f hostFile) sync() error { return f.Sync() }

// WriteAt returns when the bytes are safe from a power loss.
func (f hostFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	if err == nil {
		err = settle(f.File)
	}
	return n, err
}

func infoOf(st *unix.Stat_t) info {
	return info{
		ident: [2]uint64{uint64(st.Dev), st.Ino},
		size:  st.Size,
		plain: st.Mode&unix.S_IFMT == unix.S_IFREG,
	}
}

// advise says what to do about an error of the host's.
func advise(err error) error {
	hints := []struct {
		is   error
		hint string
	}{
		{unix.ENOSPC, "make room on that filesystem"},
		{unix.EDQUOT, "raise the quota, or make room"},
		{unix.EROFS, "mount it for writing"},
		{unix.EACCES, "whoever takes leases has to be allowed to write there"},
		{unix.EPERM, "whoever takes leases has to be allowed to write there, and the filesystem needs hard links"},
		{unix.EOPNOTSUPP, "the filesystem needs hard links"},
		{unix.EMFILE, "raise the limit of open files"},
		{unix.EFBIG, "raise the limit of the size of files (ulimit -f)"},
		{unix.ESTALE, "the server has forgotten the file: mount it again"},
	}
	for _, h := range hints {
		if errors.Is(err, h.is) {
			return fmt.Errorf("%w: %s", err, h.hint)
		}
	}
	return err
}

// parseMounts finds the options of the mount of a device, "major:minor", in the text
// of /proc/self/mountinfo. Of several the last is on top.
func parseMounts(text, device string) (options []string) {
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.Fields(line)
		if len(f) < 10 || f[2] != device {
			continue
		}
		options = append(strings.Split(f[5], ","), strings.Split(f[len(f)-1], ",")...)
	}
	return options
}

// cachesNames tells whether an NFS mount with these options may answer from what it
// remembers of directories and attributes.
func cachesNames(options []string) bool {
	zero := 0
	for _, o := range options {
		switch o {
		case "noac", "actimeo=0":
			return false
		case "acregmin=0", "acregmax=0", "acdirmin=0", "acdirmax=0":
			zero++
		}
	}
	return zero < 4
}
