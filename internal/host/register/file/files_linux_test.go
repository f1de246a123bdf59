package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A filesystem that says nothing of direct I/O takes our blocks; one that says that it takes none, or
// only larger ones, is refused.
func TestWhatTheKernelSaysOfDirectIO(t *testing.T) {
	for _, c := range []struct {
		mask             uint32
		memory, transfer uint32
		says             string
	}{
		{0, 0, 0, ""},
		{unix.STATX_DIOALIGN, 512, 512, ""},
		{unix.STATX_DIOALIGN, 4, block, ""},
		{unix.STATX_DIOALIGN, block, 512, ""},
		{unix.STATX_DIOALIGN, 0, 0, "takes no direct I/O"},
		{unix.STATX_DIOALIGN, 512, 2 * block, "only in units of 8192 bytes"},
		{unix.STATX_DIOALIGN, 2 * block, 512, "only in units of 8192 bytes"},
	} {
		err := fits("/leases", &unix.Statx_t{Mask: c.mask, Dio_mem_align: c.memory, Dio_offset_align: c.transfer})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// unwrapped is this host's file system as it is, whose descriptors can be looked at.
type unwrapped struct {
	hostFS
	last hostFile
}

func (u *unwrapped) Open(path string, flags int, perm fs.FileMode) (File, error) {
	f, err := u.hostFS.Open(path, flags, perm)
	if err == nil {
		u.last = f.(hostFile)
	}
	return f, err
}

// Each write is durable when it ends, and accesses go past the page cache unless the store is for one host.
func TestFlagsOfFiles(t *testing.T) {
	for _, buffered := range []bool{false, true} {
		u := &unwrapped{}
		h := host{buffered: buffered, fs: u}
		path := filepath.Join(t.TempDir(), "file")
		for _, c := range []struct {
			what   string
			open   func() (file, error)
			access int
		}{
			{"made", func() (file, error) { return h.create(path, 0o600) }, unix.O_RDWR},
			{"opened to write", func() (file, error) { return h.open(path, true) }, unix.O_RDWR},
			{"opened to read", func() (file, error) { return h.open(path, false) }, unix.O_RDONLY},
		} {
			f, err := c.open()
			if err != nil {
				t.Fatal(c.what, err)
			}
			flags, err := unix.FcntlInt(u.last.Fd(), unix.F_GETFL, 0)
			if err != nil || flags&unix.O_SYNC != unix.O_SYNC || flags&unix.O_DIRECT != 0 == buffered || flags&unix.O_ACCMODE != c.access {
				t.Errorf("a file that is %s, buffered %v, has the flags %#o, %v", c.what, buffered, flags, err)
			}
			f.Close()
		}
		if _, err := h.create(path, 0o600); !os.IsExist(err) {
			t.Errorf("a file that is there was made: %v", err)
		}
	}
}

// Lifelines are only where locks tell of all processes, and where no two files have the same numbers.
func TestFilesystemsWithLifelines(t *testing.T) {
	for magic, want := range map[int64]bool{
		unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true,
		unix.NFS_SUPER_MAGIC: false, unix.FUSE_SUPER_MAGIC: false, unix.V9FS_MAGIC: false, unix.CEPH_SUPER_MAGIC: false,
		unix.BCACHEFS_SUPER_MAGIC: false, // a snapshot has the numbers of the original
	} {
		if localType(magic) != want {
			t.Errorf("filesystem %#x: lifelines are there: %v, want %v", magic, !want, want)
		}
	}
}

// The options of a mount are found by the device of a path on it, which is written as the kernel writes it.
func TestMountOptions(t *testing.T) {
	options, err := mountOptions("/proc/self/mountinfo")
	if err != nil || !slices.Contains(options, "rw") && !slices.Contains(options, "ro") {
		t.Errorf("/proc is mounted with the options %q, %v; want rw or ro among them", options, err)
	}
	if _, err := mountOptions("/none/such"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that does not exist: %v, want %v", err, fs.ErrNotExist)
	}
}

// TestWhatKeepsHostsFromSharing: a mount that caches names, and a filesystem without direct I/O, are refused with
// what to do. Another failure to open a file is told as it is.
func TestWhatKeepsHostsFromSharing(t *testing.T) {
	direct := func(err error) error {
		return explainDirect("/data/x", &os.PathError{Op: "open", Path: "/data/x", Err: err})
	}
	for what, tt := range map[string]struct {
		err  error
		says string
	}{
		"NFS with caches":               {checkNFS("/data/x", []string{"rw", "vers=4.2"}), "/data/x is on NFS, mounted so that this host caches names and attributes: mount it with noac"},
		"NFS without":                   {checkNFS("/data/x", []string{"noac"}), ""},
		"NFS without, named last":       {checkNFS("/data/x", []string{"rw", "actimeo=0"}), ""},
		"no direct I/O":                 {direct(unix.EINVAL), "the filesystem of /data/x has no direct I/O"},
		"no direct I/O, says another":   {direct(unix.EOPNOTSUPP), "the filesystem of /data/x has no direct I/O"},
		"a file that may not be opened": {direct(unix.EACCES), "open /data/x: permission denied"},
	} {
		if (tt.err == nil) != (tt.says == "") || tt.err != nil && !strings.HasPrefix(tt.err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", what, tt.err, tt.says)
		}
	}
}
