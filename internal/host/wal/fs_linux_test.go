package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
)

// Space that cannot be reserved is an error, and not taken for what a file system does not know.
func TestPreallocateFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OS{}.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Preallocate(50); err == nil {
		t.Error("space was reserved in a file that cannot be written")
	}
}

// A file system that cannot reserve space has its files made longer, and any other answer is the caller's.
func TestPreallocateWhereNothingCanBeReserved(t *testing.T) {
	for _, c := range []struct {
		says, want error
		size       int64
	}{
		{nil, nil, 0}, // the kernel has seen to it
		{syscall.EOPNOTSUPP, nil, 100},
		{syscall.ENOSYS, nil, 100},
		{syscall.ENOSPC, syscall.ENOSPC, 0},
	} {
		path := filepath.Join(t.TempDir(), "file")
		f, err := OS{}.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		err = Reserve(f, 100, func() error { return c.says })
		size, sizeErr := f.Size()
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), path) || sizeErr != nil || size != c.size {
			t.Errorf("the kernel says %v: got %v, and %d bytes; want %v, of this file, and %d bytes", c.says, err, size, c.want, c.size)
		}
		f.Close()
	}
}

// Repeated operations on the host's file system leave no descriptor open.
func TestTheHostsFilesAreClosed(t *testing.T) {
	dir := t.TempDir()
	lock, err := OS{}.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return len(names)
	}
	for what, do := range map[string]func() error{
		"SyncDir": func() error { return OS{}.SyncDir(dir) },
		"a lock that is refused": func() error {
			if _, err := (OS{}).Lock(filepath.Join(dir, "lock")); !errors.Is(err, ErrLocked) {
				return fmt.Errorf("locked twice: %v", err)
			}
			return nil
		},
	} {
		before := open()
		for range 20 {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
		if after := open(); after > before+5 { // the runtime has a few of its own
			t.Errorf("%s, 20 times: %d descriptors are open, %d before", what, after, before)
		}
	}
}

// The host's file system asks the kernel to sync. That cannot be seen in a file that was synced,
// but in what cannot be: the kernel says so.
func TestTheKernelIsAskedToSync(t *testing.T) {
	refuses := func(path string, flag int) {
		t.Helper()
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			t.Skip(err)
		}
		defer f.Close()
		if f.Sync() == nil {
			t.Skipf("this kernel syncs %s", path)
		}
	}
	refuses("/proc", os.O_RDONLY)
	if err := (OS{}).SyncDir("/proc"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("SyncDir of a directory that cannot be synced: %v, want %v", err, syscall.EINVAL)
	}
	refuses(os.DevNull, os.O_RDWR)
	f, err := OS{}.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Sync of a file that cannot be synced: %v, want %v", err, syscall.EINVAL)
	}
}

// Nobody but the user may look into what is kept: values, and who holds what.
func TestFilesAreForThisUserOnly(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0)) // which hides what a program asks for
	dir := filepath.Join(t.TempDir(), "new", "data")
	l := create(t, dir, Options{SegmentBytes: 4 << 10})
	write(t, l, 3000, 3000)
	save(t, l.Snapshots(), 9, bigBody)
	if _, err := l.Snapshots().Receive(9, bytes.NewReader(snapshotBytes(t, l.Snapshots(), 9))); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, want nothing for others than the user", path, info.Mode())
		}
		seen++
		return err
	})
	if err != nil || seen != 9 {
		t.Errorf("%d files and directories, %v; want new, data, lock, wal, snap, two segments, a snapshot and one that has arrived", seen, err)
	}
}

// A signal that interrupts a system call is no failure of the disk; what the next try says counts.
func TestASignalIsNoFailure(t *testing.T) {
	for _, want := range []error{nil, syscall.EIO} {
		answers := []error{syscall.EINTR, syscall.EINTR, want}
		err := Retry(func() error {
			answer := answers[0]
			answers = answers[1:]
			return answer
		})
		if err != want || len(answers) != 0 {
			t.Errorf("two signals, and then %v: got %v, with %d tries left", want, err, len(answers))
		}
	}
}
