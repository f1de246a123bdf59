package wal_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// A watchedFS counts the files that are open, and the bytes that are written.
type watchedFS struct {
	FS
	open   int
	wrote  int
	opened func() // called when a file was opened, if set
	closes error  // of each Close of a file
}

type watchedFile struct {
	File
	fs *watchedFS
}

func (w *watchedFS) OpenFile(path string, flag int, perm fs.FileMode) (File, error) {
	f, err := w.FS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	w.open++
	if w.opened != nil {
		w.opened()
	}
	return watchedFile{f, w}, nil
}

func (f watchedFile) Close() error {
	f.fs.open--
	return errors.Join(f.File.Close(), f.fs.closes)
}

func (f watchedFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.wrote += len(b)
	return f.File.WriteAt(b, off)
}

// An open log keeps one file open, its last segment, however many it has.
func TestOpenKeepsOneFile(t *testing.T) {
	disk := waltest.NewDisk()
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900)
	l.Close()
	for name, open := range map[string]func(string, Options, func(Record) error) (*Log, error){"Open": Open, "OpenEnds": OpenEnds} {
		w := &watchedFS{FS: disk.FS()}
		l, err := open("/d", Options{FS: w, SegmentBytes: 2048}, func(Record) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if w.open != 1 {
			t.Errorf("%s keeps %d files open, want one", name, w.open)
		}
		if l.Close(); w.open != 0 {
			t.Errorf("a log that %s opened was closed, and %d files are open", name, w.open)
		}
	}
}

// A segment has 64 MiB by default, and the host's file system is the default one.
func TestDefaults(t *testing.T) {
	l := create(t, "/d", Options{FS: waltest.NewDisk().FS()})
	if got := l.Usage(); got != 64<<20 {
		t.Errorf("an empty log has %d bytes, want 64 MiB", got)
	}
	dir := t.TempDir()
	create(t, dir, Options{SegmentBytes: 1 << 12})
	if there, err := Exists(dir, nil); err != nil || !there {
		t.Errorf("the host has the log: %v, %v", there, err)
	}
}

// Of each directory all unfinished files go, and nothing else does.
func TestOpenRemovesWhatIsUnfinished(t *testing.T) {
	disk := waltest.NewDisk()
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	write(t, l, 900)
	save(t, l.Snapshots(), 3, "body")
	l.Close()
	for _, dir := range []string{"/d/wal/", "/d/snap/"} {
		for _, name := range []string{"0000000000000007.wal.tmp", "1.snap.tmp", "2.snap.tmp", "tmp", "x.tmp.damaged"} {
			disk.WriteFile(dir+name, []byte("unfinished"))
		}
	}
	fs := disk.FS()
	open(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	for dir, want := range map[string][]string{
		"/d/wal":  {"0000000000000001.wal", "tmp", "x.tmp.damaged"},
		"/d/snap": {"0000000000000003.snap", "tmp", "x.tmp.damaged"},
	} {
		if names, err := fs.ReadDir(dir); err != nil || !slices.Equal(names, want) {
			t.Errorf("after Open %s has %q, %v; want %q", dir, names, err, want)
		}
	}
}

// Records that Open has read count as durable, since it wrote them again; the next record
// says so.
func TestWhatWasReadIsKnownToBeDurable(t *testing.T) {
	disk, offsets := oneSegment(t, []int{2000})
	l, _ := open(t, "/d", Options{FS: disk.FS(), SegmentBytes: 16 << 10})
	write(t, l, 10)
	l.Close()
	lost := disk.ReadFile(segmentName)
	clear(lost[SectorBytes : 2*SectorBytes]) // of the first record
	refused(t, disk, "a sector of a record that was read before the next was written", lost, "record 1 is damaged: it was durable before record 2")
	if !bytes.Equal(disk.ReadFile(segmentName)[:offsets[0]], lost[:offsets[0]]) {
		t.Error("the header has changed")
	}
}

// A log that is open and has nothing new has nothing to sync.
func TestSyncOfNothingNew(t *testing.T) {
	disk, _ := oneSegment(t, []int{100})
	fs := disk.FS()
	l, _ := open(t, "/d", Options{FS: fs, SegmentBytes: 16 << 10})
	got := calls(fs, func() {
		for range 2 {
			if err := errors.Join(l.Sync(), l.Flush()); err != nil {
				t.Error(err)
			}
		}
	}, "write", "sync", "open")
	if len(got) != 0 {
		t.Errorf("Sync and Flush of nothing new did %q", got)
	}
}

// Flush of nothing new begins no segment, though the last one is larger than it was to be.
func TestFlushOfNothingNewBeginsNoSegment(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, Options{SegmentBytes: 4096})
	write(t, l, 100, 5000)
	before := segmentNames(t, dir)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if after := segmentNames(t, dir); !slices.Equal(after, before) {
		t.Errorf("after a Flush of nothing new there are the segments %q, and were %q", after, before)
	}
}

// A process that is refused the lock touches nothing: an unfinished file may be in the making by the
// process that has it.
func TestWhoIsRefusedTheLockTouchesNothing(t *testing.T) {
	disk := waltest.NewDisk()
	fs := disk.FS()
	create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	const made = "/d/snap/1.snap.tmp"
	disk.WriteFile(made, []byte("in the making"))
	for name, open := range map[string]func() error{
		"Open":     func() error { _, _, err := tryOpen("/d", Options{FS: fs}); return err },
		"OpenEnds": func() error { _, err := OpenEnds("/d", Options{FS: fs}, func(Record) error { return nil }); return err },
		"Create":   func() error { _, err := Create("/d", nil, Options{FS: fs}); return err },
	} {
		var err error
		did := calls(fs, func() { err = open() }, "remove", "write", "rename", "truncate", "preallocate", "syncdir", "sync")
		if !errors.Is(err, ErrLocked) || len(did) > 0 || disk.ReadFile(made) == nil {
			t.Errorf("%s beside the process that has the lock: %v, and it did %q; want ErrLocked, and that nothing is touched", name, err, did)
		}
	}
}

// Records that a later record names as durable are not written again: a start costs no
// write of the whole log's end.
func TestOpenRewritesNoMore(t *testing.T) {
	disk := waltest.NewDisk()
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 16 << 10})
	write(t, l, 1000, 1000, 1000, 1000, 100)
	l.Close()
	w := &watchedFS{FS: disk.FS()}
	_, got := open(t, "/d", Options{FS: w, SegmentBytes: 16 << 10})
	wantRecords(t, got, 1, 1000, 1000, 1000, 1000, 100)
	if want := RecordBytes(100); w.wrote != want {
		t.Errorf("Open wrote %d bytes, want %d, those of the last record", w.wrote, want)
	}
}

// A segment of an older version without records is replaced. It is not released besides, for the
// one in its place has its name.
func TestReplacedSegmentIsNotReleased(t *testing.T) {
	old, err := os.ReadFile("testdata/version-1-empty.wal")
	if err != nil {
		t.Fatal(err)
	}
	disk := waltest.NewDisk()
	opts := Options{FS: disk.FS(), SegmentBytes: 2048}
	create(t, "/d", opts).Close()
	disk.WriteFile(segmentName, old)
	fs := disk.FS()
	opts.FS = fs
	l, _ := open(t, "/d", opts)
	if open := fs.Open(); len(open) != 1 {
		t.Errorf("open are %q, want the segment in its place alone", open)
	}
	write(t, l, 50)
	if err := l.ReleaseTo(1); err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, got, err := tryOpen("/d", opts)
	if err != nil || len(got) != 1 {
		t.Errorf("%d records, %v; want the one that was synced, which nobody released", len(got), err)
	}
}

// Where space cannot be reserved a file is made longer, and never shorter: a log may be opened for
// smaller segments than it was made of.
func TestExtendNeverShortens(t *testing.T) {
	f, err := OS{}.OpenFile(filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct{ size, want int64 }{{100, 100}, {50, 100}, {0, 100}, {100, 100}, {101, 101}} {
		err := Extend(f, c.size)
		if got, sizeErr := f.Size(); err != nil || sizeErr != nil || got != c.want {
			t.Errorf("extended to %d: the file has %d bytes, %v; want %d", c.size, got, errors.Join(err, sizeErr), c.want)
		}
	}
}
