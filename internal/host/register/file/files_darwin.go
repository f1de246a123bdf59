package file

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// direct stands for O_DIRECT, which there is none of here: no flag has this bit.
const direct = 1 << 30

// past adds the flags that make each write durable when it ends, and go past the page cache, unless
// buffered.
func past(flags int, buffered bool) int {
	flags |= unix.O_SYNC
	if !buffered {
		flags |= direct
	}
	return flags
}

func openFlags(path string, flags int, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags&^direct, perm)
	if err != nil || flags&direct == 0 {
		return f, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "F_NOCACHE", Path: path, Err: err}
	}
	return f, nil
}

// probe returns an error if machines that share the file at path could not rely on each other's
// writes.
func probe(path string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	if unix.ByteSliceToString(fs.Fstypename[:]) == "nfs" {
		return fmt.Errorf("%s is on NFS, and this system does not show enough of it to rely on: make the store single-host, or use another directory", path)
	}
	return nil
}

// settle empties the drive's cache, which O_SYNC does not do here.
func settle(f *os.File) error { return f.Sync() }

// local reports whether a file is on a filesystem that is known to be one machine's.
func local(fd int) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Flags&unix.MNT_LOCAL == 0 {
		return false
	}
	kind := unix.ByteSliceToString(fs.Fstypename[:])
	return kind == "apfs" || kind == "hfs"
}
