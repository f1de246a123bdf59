package wal_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// No operation on snapshots, failed or not, leaves a file open: a process runs for years,
// and has a bounded number of files.
func TestSnapshotsLeaveNoFileOpen(t *testing.T) {
	errDisk := errors.New("the disk fails")
	other := testSnapshots(t, waltest.NewDisk())
	save(t, other, 9, bigBody)
	file := snapshotBytes(t, other, 9)
	disk := waltest.NewDisk()
	fs := disk.FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 4096})
	s := l.Snapshots()
	fails := func(op string) func() {
		return func() {
			fs.Fault = func(asked, path string) error {
				if asked == op && strings.Contains(path, "snap") {
					return errDisk
				}
				return nil
			}
		}
	}
	take := func(b []byte) error { _, err := s.Receive(9, bytes.NewReader(b)); return err }
	saved := func() error { return s.Save(SnapshotInfo{Index: 1}, body(bigBody)) }
	for _, c := range []struct {
		name string
		set  func()
		do   func() error
		good bool
	}{
		{"Save", nil, saved, true},
		{"Save of a body that fails", nil, func() error {
			return s.Save(SnapshotInfo{Index: 2}, func(io.Writer) error { return errDisk })
		}, false},
		{"Save of a body that panics", nil, func() (err error) {
			defer func() { recover(); err = errDisk }()
			return s.Save(SnapshotInfo{Index: 2}, func(io.Writer) error { panic("the caller's") })
		}, false},
		{"Save without room", fails("write"), saved, false},
		{"Save without sync", fails("sync"), saved, false},
		{"Save without a name", fails("rename"), saved, false},
		{"Receive", nil, func() error { return take(file) }, true},
		{"Receive of what is cut off", nil, func() error { return take(file[:len(file)/2]) }, false},
		{"Receive without room", fails("write"), func() error { return take(file) }, false},
		{"Verify", nil, func() error { _, err := s.Verify(1); return err }, true},
		{"Verify of what is not there", nil, func() error { _, err := s.Verify(77); return err }, false},
		{"Verify of what cannot be read", fails("read"), func() error { _, err := s.Verify(1); return err }, false},
		{"Newest", nil, func() error { _, _, err := s.Newest(nil); return err }, true},
		{"Export without a size", fails("size"), func() error { _, _, err := s.Export(1); return err }, false},
		{"Open of a damaged one", func() { flip(disk, s.Path(1), 3) }, func() error { _, err := s.Open(1); return err }, false},
	} {
		fs.Fault = nil
		if c.set != nil {
			c.set()
		}
		if err := c.do(); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
		if open := fs.Open(); slices.ContainsFunc(open, func(path string) bool { return strings.Contains(path, "snap") }) {
			t.Fatalf("%s leaves open %q", c.name, open)
		}
	}
}

// A log has its last segment open, and nothing once it is closed, or could not be opened.
func TestLogsLeaveNoFileOpen(t *testing.T) {
	disk := waltest.NewDisk()
	fs := disk.FS()
	opts := Options{FS: fs, SegmentBytes: 2048}
	only := func(what string, want int) {
		t.Helper()
		if open := fs.Open(); len(open) != want {
			t.Errorf("%s: open are %q, want %d files", what, open, want)
		}
	}
	l := create(t, "/d", opts)
	write(t, l, 900, 900, 900, 900, 900)
	only("a log of several segments", 1)
	r := l.Reader(1)
	for range 5 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	only("a Reader has come through them", 2)
	r.Close()
	only("a Reader was closed", 1)
	l.Close()
	only("a closed log", 0)
	errReplay := errors.New("the caller's")
	takesFour := func(r Record) error {
		if r.Seq == 5 { // of the last segment
			return errReplay
		}
		return nil
	}
	if _, err := Open("/d", opts, takesFour); err != errReplay {
		t.Errorf("Open: %v, want the error of replay", err)
	}
	only("a log whose records the caller does not take", 0)
	for _, op := range []string{"size", "read", "preallocate", "sync"} {
		fs.Fault = func(asked, _ string) error {
			if asked == op {
				return os.ErrPermission
			}
			return nil
		}
		if _, err := Open("/d", opts, func(Record) error { return nil }); !errors.Is(err, os.ErrPermission) {
			t.Errorf("Open of a disk that fails to %s: %v", op, err)
		}
		only("a log that the disk fails to "+op, 0)
		if _, err := OpenEnds("/d", opts, func(Record) error { return nil }); !errors.Is(err, os.ErrPermission) {
			t.Errorf("OpenEnds of a disk that fails to %s: %v", op, err)
		}
		only("ends of a log that the disk fails to "+op, 0)
		made, err := Create("/new-"+op, nil, opts)
		if err == nil { // it asks for neither sizes nor contents
			made.Close()
		}
		only("a new log on a disk that fails to "+op, 0)
	}
}
