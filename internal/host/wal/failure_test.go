package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
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
			last, asked := l.LastSeq(), []string{}
			fs.Fault = func(op, path string) error { asked = append(asked, op+" "+path); return nil }
			_, again := l.Append(Record{Payload: payload(3, FlushBytes)}) // so much is handed to the kernel at once
			flushed := l.Flush()
			if again != err || flushed != err || l.LastSeq() != last || len(asked) > 0 {
				t.Errorf("a log that has failed takes more: Append says %v and Flush %v, its last record is %d and was %d, and of the disk it asks %q",
					again, flushed, l.LastSeq(), last, asked)
			}
			fs.Fault = nil
			l.Close()
			if again := l.Sync(); again != err {
				t.Errorf("Sync once it is closed: %v, want the first error", again)
			}
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

// Every operation that makes or removes a name returns an error when the disk does not make
// that durable.
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

// failures has each call to the disk, or each of one kind, fail once, in a run of its own: what was done
// says so, and can be done again. Files that are closed have been synced, or are only read.
func failures(t *testing.T, what, only string, prepare func(fs *waltest.FS), do func(fs *waltest.FS) error, again func(step string, fs *waltest.FS)) {
	t.Helper()
	for call := 1; ; call++ {
		fs := waltest.NewDisk().FS()
		prepare(fs)
		step, n := "", 0
		fs.Fault = func(op, path string) error {
			if op == "close" || only != "" && op != only {
				return nil
			}
			if n++; n != call {
				return nil
			}
			step = op + " of " + path
			return syscall.EIO
		}
		err := do(fs)
		if step == "" {
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: the %s fails, and it says %v", what, step, err)
		}
		fs.Fault = nil
		again(step, fs)
	}
}

func TestCreateFailsAsTheDiskDoes(t *testing.T) {
	failures(t, "Create", "", func(*waltest.FS) {}, func(fs *waltest.FS) error {
		_, err := Create("/d", []byte("member 1"), Options{FS: fs, SegmentBytes: 2048})
		return err
	}, func(step string, fs *waltest.FS) {
		l, err := Create("/d", []byte("member 1"), Options{FS: fs, SegmentBytes: 2048})
		if errors.Is(err, ErrExists) { // the name was made, if not durably
			l, _, err = tryOpen("/d", Options{FS: fs, SegmentBytes: 2048})
		}
		if err != nil {
			t.Fatalf("the %s has failed, and then: %v", step, err)
		}
		l.Close()
	})
}

func TestOpenFailsAsTheDiskDoes(t *testing.T) {
	sizes := []int{900, 900, 900, 900, 900}
	for name, open := range map[string]func(string, Options, func(Record) error) (*Log, error){"Open": Open, "OpenEnds": OpenEnds} {
		failures(t, name, "", func(fs *waltest.FS) {
			l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
			write(t, l, sizes...)
			save(t, l.Snapshots(), 3, "body")
			l.Close()
			for _, unfinished := range []string{"/d/wal/0000000000000007.wal.tmp", "/d/snap/1.snap.tmp"} {
				f, err := fs.OpenFile(unfinished, os.O_RDWR|os.O_CREATE, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				f.Close()
			}
		}, func(fs *waltest.FS) error {
			_, err := open("/d", Options{FS: fs, SegmentBytes: 2048}, func(Record) error { return nil })
			return err
		}, func(step string, fs *waltest.FS) {
			l, got, err := tryOpen("/d", Options{FS: fs, SegmentBytes: 2048})
			if err != nil {
				t.Fatalf("%s: the %s has failed, and then: %v", name, step, err)
			}
			wantRecords(t, got, 1, sizes...)
			l.Close()
		})
	}
}

// The end of a log that was torn is cleared, what may be in the page cache only is written again, and
// both are durable before Open returns; if a step fails Open says so.
func TestRepairFailsAsTheDiskDoes(t *testing.T) {
	disk, offsets := oneSegment(t, []int{100}, []int{700, 1500})
	torn := disk.ReadFile(segmentName)
	clear(torn[offsets[3]-SectorBytes:])
	var at waltest.FS
	prepare := func(fs *waltest.FS) {
		disk, _ := oneSegment(t, []int{100}, []int{700, 1500})
		*fs = *disk.FS()
		disk.WriteFile(segmentName, torn)
		at = *fs
	}
	failures(t, "Open of a torn log", "", prepare, func(fs *waltest.FS) error {
		_, _, err := tryOpen("/d", Options{FS: fs, SegmentBytes: 16 << 10})
		return err
	}, func(step string, fs *waltest.FS) {
		l, got, err := tryOpen("/d", Options{FS: fs, SegmentBytes: 16 << 10})
		if err != nil {
			t.Fatalf("the %s has failed, and then: %v", step, err)
		}
		wantRecords(t, got, 1, 100, 700)
		l.Close()
	})
	prepare(&at)
	got := calls(&at, func() { open(t, "/d", Options{FS: &at, SegmentBytes: 16 << 10}) }, "write", "sync")
	if want := []string{"write " + segmentName, "write " + segmentName, "sync " + segmentName}; !slices.Equal(got, want) {
		t.Errorf("Open of a torn log did %q, want %q", got, want)
	}
}

// An older program's segment is followed, or replaced, by one of this program's version.
func TestNewerSegmentsFailAsTheDiskDoes(t *testing.T) {
	for file, sizes := range map[string][]int{"testdata/version-1.wal": {0, 10, 600}, "testdata/version-1-empty.wal": {}} {
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		failures(t, file, "", func(fs *waltest.FS) {
			disk := waltest.NewDisk()
			*fs = *disk.FS()
			create(t, "/d", Options{FS: fs, SegmentBytes: 2048}).Close()
			disk.WriteFile(segmentName, old)
		}, func(fs *waltest.FS) error {
			_, _, err := tryOpen("/d", Options{FS: fs, SegmentBytes: 2048})
			return err
		}, func(step string, fs *waltest.FS) {
			l, got, err := tryOpen("/d", Options{FS: fs, SegmentBytes: 2048})
			if err != nil {
				t.Fatalf("%s: the %s has failed, and then: %v", file, step, err)
			}
			wantRecords(t, got, 1, sizes...)
			l.Close()
		})
	}
}

// Append hands much of what it is given to the kernel, and returns the error if that fails.
func TestAppendHandsMuchToTheKernel(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs})
	large := Record{Kind: 7, Payload: payload(1, 1<<20)}
	if _, err := l.Append(large); err != nil {
		t.Fatal(err)
	}
	wantNext(t, l.Reader(1), 1, 1<<20)
	fs.Fault = func(op, _ string) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	if seq, err := l.Append(large); !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, ErrFailed) {
		t.Errorf("a full disk: record %d, %v; want ErrFailed, for %v", seq, err, syscall.ENOSPC)
	}
}

func TestSnapshotsFailAsTheDiskDoes(t *testing.T) {
	other := testSnapshots(t, waltest.NewDisk())
	save(t, other, 9, "body")
	file := snapshotBytes(t, other, 9)
	var s *Snapshots
	prepare := func(fs *waltest.FS) {
		s = create(t, "/d", Options{FS: fs, SegmentBytes: 2048}).Snapshots()
		save(t, s, 1, "one")
		save(t, s, 2, "two")
	}
	for what, do := range map[string]func() error{
		"Save":   func() error { return s.Save(SnapshotInfo{Index: 7}, body("body")) },
		"Import": func() error { _, err := s.Import(9, bytes.NewReader(file)); return err },
		"Discard": func() error {
			a, err := s.Receive(9, bytes.NewReader(file))
			if err != nil {
				return err
			}
			return a.Discard()
		},
		"Verify": func() error { _, err := s.Verify(2); return err },
		"Newest": func() error { _, _, err := s.Newest(nil); return err },
		"List":   func() error { _, err := s.List(); return err },
		"Prune":  func() error { return s.Prune(1) },
	} {
		failures(t, what, "", prepare, func(*waltest.FS) error { return do() }, func(step string, fs *waltest.FS) {
			if err := do(); err != nil && !(what == "Discard" && errors.Is(err, os.ErrNotExist)) {
				t.Errorf("%s: the %s has failed, and then: %v", what, step, err)
			}
		})
	}
	failures(t, "Newest beside a damaged one", "", func(fs *waltest.FS) {
		disk := waltest.NewDisk()
		*fs = *disk.FS()
		prepare(fs)
		flip(disk, s.Path(2), 50)
	}, func(*waltest.FS) error {
		_, _, err := s.Newest(func(SnapshotInfo) bool { return true })
		return err
	}, func(step string, _ *waltest.FS) {
		if info, _, err := s.Newest(func(SnapshotInfo) bool { return true }); err != nil || info.Index != 1 {
			t.Errorf("the %s has failed, and then the newest is %d, %v; want 1", step, info.Index, err)
		}
	})
}

// A sync that fails on the way is not made good by the one at the end, which may succeed:
// the kernel has dropped what it could not write.
func TestNoSyncOnTheWayFailsInSilence(t *testing.T) {
	other := testSnapshots(t, waltest.NewDisk())
	save(t, other, 9, bigBody)
	file := snapshotBytes(t, other, 9)
	var s *Snapshots
	for what, do := range map[string]func() error{
		"Save":    func() error { return s.Save(SnapshotInfo{Index: 7}, body(bigBody)) },
		"Receive": func() error { _, err := s.Receive(9, bytes.NewReader(file)); return err },
	} {
		failures(t, what, "sync", func(fs *waltest.FS) {
			s = create(t, "/d", Options{FS: fs, SegmentBytes: 2048}).Snapshots()
		}, func(*waltest.FS) error { return do() }, func(step string, fs *waltest.FS) {
			if names, err := fs.ReadDir(s.Dir()); err != nil || len(names) != 0 {
				t.Errorf("%s: the %s has failed, and left are %v, %v", what, step, names, err)
			}
		})
	}
}
