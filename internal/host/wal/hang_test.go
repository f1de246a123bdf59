package wal_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// A disk may take long to open or to remove a segment. Writers, and callers that ask where
// the log begins, must not wait for it.
func TestNobodyWaitsForADiskThatHangs(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900)
	var asked []string
	fs.Fault = func(op, _ string) error {
		asked = append(asked, op)
		if !l.Free() {
			t.Errorf("the log is locked while the disk is asked: %s", op)
		}
		if (op == "remove" || op == "syncdir") && l.MayRelease() {
			t.Errorf("another call may release segments while one is being removed: %s", op)
		}
		return nil
	}
	if _, err := l.Reader(1).Next(); err != nil {
		t.Error(err)
	}
	if err := l.ReleaseTo(3); err != nil {
		t.Error(err)
	}
	for _, op := range []string{"open", "remove", "syncdir"} {
		if !slices.Contains(asked, op) {
			t.Errorf("nothing was asked of the disk by %s: %q", op, asked)
		}
	}
}

// A segment that is removed while it is opened has been released, whether the disk has opened
// it or found it gone.
func TestASegmentIsReleasedWhileItIsOpened(t *testing.T) {
	for _, when := range []string{"before", "during", "after"} {
		fs := waltest.NewDisk().FS()
		w := &watchedFS{FS: fs}
		l := create(t, "/d", Options{FS: w, SegmentBytes: 2048})
		write(t, l, 900, 900, 900, 900, 900)
		release := func() {
			fs.Fault = nil
			if err := l.ReleaseTo(3); err != nil {
				t.Error(err)
			}
		}
		w.opened = func() {
			if when == "during" {
				release()
			}
		}
		fs.Fault = func(op, _ string) error {
			switch {
			case op == "open" && when == "before":
				release()
			case op == "read" && when == "after":
				release()
			}
			return nil
		}
		r := l.Reader(1)
		_, err := r.Next()
		if when != "after" && !errors.Is(err, ErrReleased) {
			t.Errorf("released %s it is opened: %v, want ErrReleased", when, err)
		}
		if when == "after" && err != nil {
			t.Errorf("released after it was opened: %v, want the record", err)
		}
		if first := l.FirstSeq(); first != 3 {
			t.Errorf("the log begins at %d, want 3", first)
		}
		if r.Close(); w.open != 1 {
			t.Errorf("released %s it is opened: %d files are open behind the reader, want the last segment alone", when, w.open)
		}
	}
}

// A segment that is about to be removed is released for a process that asks for it. If the disk does not
// remove it, it stays and can be read.
func TestASegmentIsReadWhileItIsReleased(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900)
	asked := 0
	fs.Fault = func(op, _ string) error {
		if op != "remove" {
			return nil
		}
		asked++
		if _, err := l.Reader(1).Next(); !errors.Is(err, ErrReleased) {
			t.Errorf("read while it is released: %v, want ErrReleased", err)
		}
		if record, err := l.Reader(3).Next(); err != nil || record.Seq != 3 {
			t.Errorf("while a segment is released, of the next one: record %d, %v; want 3", record.Seq, err)
		}
		if first := l.FirstSeq(); first != 3 {
			t.Errorf("while a segment is released the log begins at %d, want 3", first)
		}
		return syscall.EIO
	}
	if err := l.ReleaseTo(3); !errors.Is(err, syscall.EIO) || asked != 1 {
		t.Errorf("a disk that removes nothing: %v, asked %d times; want its error once", err, asked)
	}
	if _, err := l.Reader(1).Next(); err != nil || l.FirstSeq() != 1 {
		t.Errorf("a segment that could not be removed: %v, the log begins at %d; want that it stays", err, l.FirstSeq())
	}
	fs.Fault = nil
	if err := l.ReleaseTo(3); err != nil || l.FirstSeq() != 3 {
		t.Errorf("released again: %v, the log begins at %d, want 3", err, l.FirstSeq())
	}
}

// A segment that was removed, and whose directory was not synced, is released by the next call.
func TestReleaseGoesOnBehindAFailure(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900, 900)
	fs.Fault = func(op, _ string) error {
		if op == "syncdir" {
			return syscall.EIO
		}
		return nil
	}
	if err := l.ReleaseTo(5); !errors.Is(err, syscall.EIO) {
		t.Errorf("the directory cannot be synced: %v, want the disk's error", err)
	}
	if _, err := l.Reader(1).Next(); !errors.Is(err, ErrReleased) || l.FirstSeq() != 3 {
		t.Errorf("behind it record 1: %v, the log begins at %d; want ErrReleased, 3", err, l.FirstSeq())
	}
	fs.Fault = nil
	if err := l.ReleaseTo(5); err != nil || l.FirstSeq() != 5 {
		t.Errorf("released again: %v, the log begins at %d, want 5", err, l.FirstSeq())
	}
	if record, err := l.Reader(5).Next(); err != nil || record.Seq != 5 {
		t.Errorf("then record 5 is %v, %v", record, err)
	}
}
