package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// files has the calls of the host that a store needs. It is the one place where tests put faults.
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

// info has the host's description of a file. The ident is no other file's while it exists.
type info struct {
	ident [2]uint64
	size  int64
	plain bool // a regular file
}

// host is the real one: how each file is opened, over a file system.
type host struct {
	buffered bool
	fs       FS // nil: this host's
}

func (h host) sys() FS {
	if h.fs == nil {
		return OS
	}
	return h.fs
}

func (h host) names(dir string) ([]string, error) { return h.sys().Names(dir) }

func (h host) open(path string, write bool) (file, error) {
	how := os.O_RDONLY
	if write {
		how = os.O_RDWR
	}
	// Not to block on a path that is no file at all.
	return h.opened(h.sys().Open(path, past(how|unix.O_NONBLOCK, h.buffered), 0))
}

func (h host) create(path string, perm os.FileMode) (file, error) {
	return h.opened(h.sys().Open(path, past(os.O_RDWR|os.O_CREATE|os.O_EXCL, h.buffered), perm))
}

func (h host) opened(f File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return openFile{f}, nil
}

func (h host) stat(path string) (info, error) {
	st, err := h.sys().Lstat(path)
	return st.info(), err
}

func (h host) link(from, to string) error   { return h.sys().Link(from, to) }
func (h host) rename(from, to string) error { return h.sys().Rename(from, to) }
func (h host) remove(path string) error     { return h.sys().Remove(path) }
func (h host) syncDir(dir string) error     { return h.sys().SyncDir(dir) }

// openFile is a File as the rest of the package wants it.
type openFile struct{ File }

func (f openFile) sync() error { return f.Sync() }

func (f openFile) stat() (info, error) {
	st, err := f.Stat()
	return st.info(), err
}

func (st Info) info() info {
	return info{ident: st.Ident, size: st.Size, plain: st.Mode.IsRegular()}
}

// advise adds a remedy to an error of the host's.
func advise(err error) error {
	hints := []struct {
		is   error
		hint string
	}{
		{unix.ENOSPC, "make room on that filesystem"},
		{unix.EDQUOT, "raise the quota, or make room"},
		{unix.EROFS, "mount it for writing"},
		{unix.EACCES, "users that take leases have to be allowed to write there"},
		{unix.EPERM, "users that take leases have to be allowed to write there, and the filesystem needs hard links"},
		{unix.EOPNOTSUPP, "the filesystem needs hard links"},
		{unix.EMFILE, "raise the limit of open files"},
		{unix.EFBIG, "raise the limit of the size of files (ulimit -f)"},
		{unix.ESTALE, "the server does not know the file any more: mount it again"},
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

// cachesNames reports whether an NFS mount with these options may cache directories and attributes.
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
