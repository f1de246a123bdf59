package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	. "github.com/tenure-lease/tenure/wal"
	"github.com/tenure-lease/tenure/wal/waltest"
)

// TestFailureIsFinal fails each operation of a running log once; the log must
// refuse everything from then on, and the next Open must find what was synced.
func TestFailureIsFinal(t *testing.T) {
	tests := []struct {
		op    string
		errno error
	}{
		{"write", syscall.ENOSPC}, {"sync", syscall.EIO}, {"preallocate", syscall.ENOSPC},
		{"rename", syscall.EIO}, {"syncdir", syscall.EIO}, {"open", syscall.EMFILE}, {"truncate", syscall.EIO},
	}
	for _, tt := range tests {
		t.Run(tt.op, func(t *testing.T) {
			fs := waltest.NewDisk().FS()
			opts := Options{SegmentBytes: 2048, FS: fs}
			l := create(t, "/d", opts)
			write(t, l, 1500)
			calls := 0
			fs.Fault = func(op, path string) error {
				if op != tt.op {
					return nil
				}
				calls++
				return tt.errno
			}
			_, err := l.Append(Record{Payload: payload(2, 1500)}) // needs a new segment
			if err == nil {
				err = l.Sync()
			}
			if !errors.Is(err, tt.errno) || !errors.Is(err, ErrFailed) {
				t.Fatalf("got %v, want %v and ErrFailed", err, tt.errno)
			}
			if again := l.Sync(); again != err {
				t.Errorf("Sync again: %v, want the first error", again)
			}
			if _, again := l.Append(Record{}); again != err {
				t.Errorf("Append again: %v, want the first error", again)
			}
			if calls != 1 {
				t.Errorf("%s was tried %d times, want 1", tt.op, calls)
			}
			fs.Fault = nil
			l.Close()
			if _, got := open(t, "/d", opts); len(got) == 0 {
				t.Error("the synced record is lost")
			}
		})
	}
}

// A failed fsync drops dirty pages while the page cache still shows them. Open
// must write such records again before it hands them out.
func TestOpenRewritesWhatMayBeOnlyInTheCache(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 1 << 16})
	write(t, l, 10)
	fs.Fault = func(op, path string) error {
		if op == "sync" {
			return syscall.EIO
		}
		return nil
	}
	l.Append(Record{Kind: 7, Payload: payload(2, 10)})
	if err := l.Sync(); err == nil {
		t.Fatal("sync did not fail")
	}
	fs.Fault = nil
	l.Close()
	var written []string
	fs.Fault = func(op, path string) error {
		if op == "write" || op == "sync" {
			written = append(written, op)
		}
		return nil
	}
	_, got := open(t, "/d", Options{FS: fs, SegmentBytes: 1 << 16})
	wantRecords(t, got, 1, 10, 10)
	if fmt.Sprint(written) != "[write sync]" {
		t.Errorf("Open did %v, want [write sync]", written)
	}
}

// A record that is too large ends the log: what came before it in its batch may be written.
func TestARecordThatIsTooLargeEndsTheLog(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	write(t, l, 10)
	_, err := l.Append(Record{Kind: 7, Payload: payload(2, 10)}, Record{Payload: make([]byte, PayloadBytesMax+1)}) // of which nothing is touched
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "are the limit") {
		t.Fatalf("got %v, want ErrFailed for its size", err)
	}
	_, appended := l.Append(Record{})
	for what, again := range map[string]error{"Append": appended, "Flush": l.Flush(), "Sync": l.Sync()} {
		if again != err {
			t.Errorf("%s then: %v, want the first error", what, again)
		}
	}
	l.Close()
	_, got := open(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	wantRecords(t, got, 1, 10)
}

// Whatever makes or removes a name returns an error when the disk does not make that durable.
func TestDirectoriesThatAreNotSynced(t *testing.T) {
	errDisk := errors.New("the disk fails")
	other := testSnapshots(t, waltest.NewDisk())
	save(t, other, 9, "body")
	file := snapshotBytes(t, other, 9)
	for _, c := range []struct {
		name, dir string // that is not synced
		do        func(l *Log, fs FS) error
	}{
		{"a new segment", "/d/wal", func(l *Log, fs FS) error {
			if _, err := l.Append(Record{Payload: payload(9, 2000)}); err != nil {
				return err
			}
			return l.Sync()
		}},
		{"a segment that is released", "/d/wal", func(l *Log, fs FS) error { return l.ReleaseTo(3) }},
		{"a snapshot", "/d/snap", func(l *Log, fs FS) error { return l.Snapshots().Save(SnapshotInfo{Index: 7}, body("body")) }},
		{"a snapshot that was sent", "/d/snap", func(l *Log, fs FS) error {
			a, err := l.Snapshots().Receive(9, bytes.NewReader(file))
			if err != nil {
				t.Error(err)
				return err
			}
			return a.Keep()
		}},
		{"a snapshot that is imported", "/d/snap", func(l *Log, fs FS) error {
			_, err := l.Snapshots().Import(9, bytes.NewReader(file))
			return err
		}},
		{"a log", "/", func(l *Log, fs FS) error { _, err := Create("/e", nil, Options{FS: fs}); return err }},
		{"a log in its directory", "/e", func(l *Log, fs FS) error { _, err := Create("/e", nil, Options{FS: fs}); return err }},
		{"the first segment", "/e/wal", func(l *Log, fs FS) error { _, err := Create("/e", nil, Options{FS: fs}); return err }},
		{"the snapshots of a log that is opened", "/d/snap", func(l *Log, fs FS) error {
			l.Close()
			_, err := Open("/d", Options{FS: fs}, func(Record) error { return nil })
			return err
		}},
	} {
		fs := waltest.NewDisk().FS()
		l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
		write(t, l, 900, 900, 900, 900)
		asked := false
		fs.Fault = func(op, path string) error {
			if op == "syncdir" && path == c.dir {
				asked = true
				return errDisk
			}
			return nil
		}
		if err := c.do(l, fs); !errors.Is(err, errDisk) || !asked {
			t.Errorf("%s: got %v, and the directory was synced: %v; want the disk's error", c.name, err, asked)
		}
	}
}
