package file

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// past adds the flags that make each write durable when it ends, and go past the page cache, unless
// buffered.
func past(flags int, buffered bool) int {
	flags |= unix.O_SYNC
	if !buffered {
		flags |= unix.O_DIRECT
	}
	return flags
}

func openFlags(path string, flags int, perm os.FileMode) (*os.File, error) {
	return os.OpenFile(path, flags, perm)
}

// probe returns an error if machines that share the file at path could not rely on each other's
// writes.
func probe(path string) error {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return probeDirect(path) // a device: its directory does not matter
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	switch int64(fs.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return fmt.Errorf("%s is in memory: no other host sees it and nothing outlives a power loss; make it single-host, or use another directory", path)
	case unix.NFS_SUPER_MAGIC:
		if err := probeNFS(path); err != nil {
			return err
		}
	}
	return probeDirect(path)
}

func probeNFS(path string) error {
	options, err := mountOptions(path)
	if err != nil {
		return err
	}
	return checkNFS(path, options)
}

// checkNFS returns why a mount with the options would not do.
func checkNFS(path string, options []string) error {
	if cachesNames(options) {
		return fmt.Errorf("%s is on NFS, mounted so that this host caches names and attributes: mount it with noac (or actimeo=0,lookupcache=none)", path)
	}
	return nil
}

// mountOptions are those of the mount that a path is on.
func mountOptions(path string) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(string(mounts), fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))), nil
}

// probeDirect tries direct I/O and looks whether it takes our blocks.
func probeDirect(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return explainDirect(path, err)
	}
	defer f.Close()
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st); err != nil {
		return nil
	}
	return fits(path, &st)
}

// explainDirect says of a file that cannot be opened for direct I/O what that means.
func explainDirect(path string, err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("the filesystem of %s has no direct I/O, so hosts that share it may read old data: use another one, or make the store single-host", path)
	}
	return err
}

// fits returns an error if the kernel says that a file does not take direct I/O in our blocks.
func fits(path string, st *unix.Statx_t) error {
	if st.Mask&unix.STATX_DIOALIGN == 0 {
		return nil // before Linux 6.1: all take 4096
	}
	if st.Dio_offset_align == 0 {
		return fmt.Errorf("%s takes no direct I/O (encrypted or compressed, perhaps), so hosts that share it may read old data: use another one, or make the store single-host", path)
	}
	if st.Dio_mem_align > block || st.Dio_offset_align > block {
		return fmt.Errorf("%s takes direct I/O only in units of %d bytes; this program writes %d", path, max(st.Dio_mem_align, st.Dio_offset_align), block)
	}
	return nil
}

// settle has nothing to do: O_SYNC did it.
func settle(*os.File) error { return nil }

// local reports whether a file is on a filesystem that is known to be one machine's, and on which no
// other file has its device and inode numbers. A network filesystem may keep locks for each client
// alone, or give them up when a connection breaks. Bcachefs is left out: a snapshot of a subvolume has
// the same numbers there, and a copy of a living holder's file in it is locked by nobody.
func local(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && localType(int64(fs.Type))
}

func localType(magic int64) bool {
	const zfs = 0x2fc12fc1
	switch magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, zfs:
		return true
	}
	return false
}
