package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// payload is a recognizable payload of n bytes for record seq, mostly zeros.
func payload(seq uint64, n int) []byte {
	b := make([]byte, n+8)
	binary.LittleEndian.PutUint64(b, seq)
	return b[:n]
}

// open opens a log and returns its records.
func open(t testing.TB, dir string, opts Options) (*Log, []Record) {
	t.Helper()
	l, got, err := tryOpen(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, got
}

func tryOpen(dir string, opts Options) (*Log, []Record, error) {
	var got []Record
	l, err := Open(dir, opts, func(r Record) error {
		if room := cap(r.Payload) - len(r.Payload); room > 0 {
			return fmt.Errorf("what a caller appends to the payload of record %d is written over the %d bytes that follow", r.Seq, room)
		}
		r.Payload = bytes.Clone(r.Payload)
		got = append(got, r)
		return nil
	})
	return l, got, err
}

func create(t testing.TB, dir string, opts Options) *Log {
	t.Helper()
	l, err := Create(dir, []byte("member 1"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// write appends records with payloads of the given sizes, each synced.
func write(t testing.TB, l *Log, sizes ...int) {
	t.Helper()
	for _, n := range sizes {
		if _, err := l.Append(Record{Kind: 7, Payload: payload(l.LastSeq()+1, n)}); err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantRecords wants records first, first+1, … with payloads of the given sizes.
func wantRecords(t testing.TB, got []Record, first uint64, sizes ...int) {
	t.Helper()
	if len(got) != len(sizes) {
		t.Fatalf("got %d records, want %d", len(got), len(sizes))
	}
	for i, n := range sizes {
		seq := first + uint64(i)
		if got[i].Seq != seq || got[i].Kind != 7 || !bytes.Equal(got[i].Payload, payload(seq, n)) {
			t.Fatalf("record %d: got seq %d kind %d and %d bytes, want seq %d kind 7 and %d bytes",
				i, got[i].Seq, got[i].Kind, len(got[i].Payload), seq, n)
		}
	}
}

func TestReopenKeepsEverything(t *testing.T) {
	dir, opts := filepath.Join(t.TempDir(), "member"), Options{SegmentBytes: 16 << 10}
	sizes := []int{0, 1, 7, 8, 9, 500, 5000, 40_000, 3}
	l := create(t, dir, opts)
	write(t, l, sizes...)
	l.Close()
	for range 2 {
		l, got := open(t, dir, opts)
		wantRecords(t, got, 1, sizes...)
		if string(l.Meta()) != "member 1" || l.Repair() != nil || l.LastSeq() != uint64(len(sizes)) {
			t.Errorf("meta %q, repair %v, last %d", l.Meta(), l.Repair(), l.LastSeq())
		}
		write(t, l, 11)
		sizes = append(sizes, 11)
		l.Close()
	}
}

// A log keeps the ID that was drawn for it, and no other log has it.
func TestALogKeepsItsID(t *testing.T) {
	disk := waltest.NewDisk()
	opts := Options{FS: disk.FS(), SegmentBytes: 2048}
	l := create(t, "/d", opts)
	write(t, l, 1900, 1900)
	id := l.ID()
	l.Close()
	if other := create(t, "/e", opts); other.ID() == id {
		t.Errorf("two logs have the ID %x", id)
	}
	l, _ = open(t, "/d", opts)
	if l.ID() != id {
		t.Errorf("a log had the ID %x, and has %x when it is opened again", id, l.ID())
	}
	l.Close()
	if l, _ = openEnds(t, disk); l.ID() != id {
		t.Errorf("a log had the ID %x, and has %x when it is opened by its ends", id, l.ID())
	}
	if from := binary.LittleEndian.Uint64(disk.ReadFile(segmentName)[16:]); from != id {
		t.Errorf("the segments are those of the log %x, and its ID is %x", from, id)
	}
}

// A segment is filled to its last byte, and the next record is the first of another one.
func TestASegmentIsFilled(t *testing.T) {
	disk := waltest.NewDisk()
	empty := create(t, "/e", Options{FS: disk.FS(), SegmentBytes: 4096})
	size := int64(empty.Offset() + 2*RecordBytes(600))
	for what, batch := range map[string]bool{"one by one": false, "at once": true} {
		fs := waltest.NewDisk().FS()
		l := create(t, "/d", Options{FS: fs, SegmentBytes: size})
		if batch {
			if _, err := l.Append(Record{Kind: 7, Payload: payload(1, 600)}, Record{Kind: 7, Payload: payload(2, 600)}); err != nil {
				t.Fatal(err)
			}
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, l, 600, 600)
		}
		if names, err := fs.ReadDir("/d/wal"); err != nil || len(names) != 1 || l.Usage() != size {
			t.Errorf("two records that fill a segment, written %s: segments %q of %d bytes, %v; want one of %d bytes", what, names, l.Usage(), err, size)
		}
		write(t, l, 0)
		if names, err := fs.ReadDir("/d/wal"); err != nil || len(names) != 2 || names[1] != "0000000000000003.wal" || l.Usage() != 2*size {
			t.Errorf("one more, behind two that were written %s: segments %q of %d bytes, %v; want a second one, from record 3 on", what, names, l.Usage(), err)
		}
	}
}

// A batch that is larger than a segment is the first one's of an empty log, and begins no other.
func TestALargeBatchInAnEmptyLog(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	made := calls(fs, func() { write(t, l, 9000) }, "open", "rename", "truncate")
	if len(made) > 0 || l.Usage() != int64(l.Offset()) {
		t.Errorf("a large record in an empty log: it did %q, and says %d bytes; want the one segment that is there, of %d", made, l.Usage(), l.Offset())
	}
}

// The memory of a batch is used again, but for that of a rare giant one.
func TestTheBufferOfAGiantBatchIsGivenBack(t *testing.T) {
	l := create(t, "/d", Options{FS: waltest.NewDisk().FS(), SegmentBytes: 4096})
	write(t, l, 1000)
	if l.Buffer() == 0 {
		t.Error("the memory of a small batch is not kept for the next one")
	}
	write(t, l, 5*FlushBytes)
	if got := l.Buffer(); got > 4*FlushBytes {
		t.Errorf("a batch of %d bytes was written, and the log goes on holding %d bytes", 5*FlushBytes, got)
	}
}

func TestAppendNumbersAndBatches(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, Options{})
	recs := []Record{{Kind: 1, Payload: []byte("a")}, {Kind: 2, Payload: []byte("b")}}
	last, err := l.Append(recs...)
	if err != nil || last != 2 || recs[0].Seq != 1 || recs[1].Seq != 2 {
		t.Errorf("Append: last %d, seqs %d %d, %v", last, recs[0].Seq, recs[1].Seq, err)
	}
	l.Close() // not synced, and never handed to the kernel: gone
	if _, got := open(t, dir, Options{}); len(got) != 0 {
		t.Errorf("got %d records, want none without Sync", len(got))
	}
}

// onDisk is how many bytes the segments of a log have.
func onDisk(t *testing.T, dir string) (sum int64) {
	t.Helper()
	for _, name := range segmentNames(t, dir) {
		info, err := os.Stat(filepath.Join(dir, "wal", name))
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

func TestCutAndRelease(t *testing.T) {
	dir, opts := t.TempDir(), Options{SegmentBytes: 4096}
	l := create(t, dir, opts)
	var sizes []int
	for range 40 {
		sizes = append(sizes, 600)
	}
	write(t, l, sizes...)
	// 6 records of 632 bytes and a header fit a segment.
	if got, want := segmentNames(t, dir), 7; len(got) != want {
		t.Fatalf("segments %v, want %d", got, want)
	}
	for _, tt := range []struct{ seq, want uint64 }{{18, 13}, {20, 19}} {
		if err := l.ReleaseTo(tt.seq); err != nil {
			t.Fatal(err)
		}
		if got := l.FirstSeq(); got != tt.want {
			t.Errorf("FirstSeq %d, want %d: the segment that holds record %d stays whole", got, tt.want, tt.seq)
		}
	}
	if got, want := l.Usage(), onDisk(t, dir); got != want {
		t.Errorf("Usage %d, on disk %d", got, want)
	}
	for _, opts.SegmentBytes = range []int64{opts.SegmentBytes, 2 * opts.SegmentBytes, opts.SegmentBytes} {
		l.Close()
		var got []Record
		l, got = open(t, dir, opts)
		wantRecords(t, got, 19, sizes[18:]...)
		if want := onDisk(t, dir); l.Usage() != want || l.FirstSeq() != 19 {
			t.Errorf("opened again, with segments of %d bytes: usage %d, first %d; want %d, 19", opts.SegmentBytes, l.Usage(), l.FirstSeq(), want)
		}
	}
	if err := l.ReleaseTo(1 << 60); err != nil {
		t.Fatal(err)
	}
	if n := len(segmentNames(t, dir)); n != 1 {
		t.Errorf("%d segments, want 1: the last always stays", n)
	}
}

// The figure is that of the files, of those that a batch made larger, too.
func TestUsageIsThatOfTheFiles(t *testing.T) {
	dir, opts := t.TempDir(), Options{SegmentBytes: 4096}
	l := create(t, dir, opts)
	wants := func(when string) {
		t.Helper()
		var onDisk int64
		for _, name := range segmentNames(t, dir) {
			info, err := os.Stat(filepath.Join(dir, "wal", name))
			if err != nil {
				t.Fatal(err)
			}
			onDisk += info.Size()
		}
		if got := l.Usage(); got != onDisk {
			t.Errorf("%s: Usage %d, on disk %d", when, got, onDisk)
		}
	}
	wants("empty")
	for i, size := range []int{600, 40_000, 50_000, 60_000, 600} {
		write(t, l, size)
		wants(fmt.Sprintf("record %d, of %d bytes", i+1, size))
	}
	l.Close()
	l, _ = open(t, dir, opts)
	wants("opened again")
	l.Close()
	l, _ = open(t, dir, Options{SegmentBytes: 1024})
	wants("opened for smaller segments")
	l.Close()
	l, _ = open(t, dir, opts)
	write(t, l, 10, 70_000)
	wants("gone on with")
}

func segmentNames(t *testing.T, dir string) (names []string) {
	all, err := OS{}.ReadDir(filepath.Join(dir, "wal"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Options{})
	_, _, err := tryOpen(dir, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d:", os.Getpid())) {
		t.Errorf("second Open: %v, want ErrLocked with the process id", err)
	}
	if _, err := Create(dir, nil, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("second Create: %v, want ErrLocked", err)
	}
}

// Nothing is left of the number of a process that had the directory before.
func TestLockNamesItsProcess(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("123456789012345678\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, dir, Options{})
	if _, _, err := tryOpen(dir, Options{}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d:", os.Getpid())) {
		t.Errorf("second Open: %v, want ErrLocked with the id of this process", err)
	}
}

// A machine that loses power may keep a later record that was handed to the kernel, and lose an
// earlier one. Neither was durable, so that is a torn write.
func TestAPowerLossAfterFlushIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, Options{})
	var ends []int
	for seq := range uint64(3) {
		if _, err := l.Append(Record{Payload: payload(seq+1, 2000)}); err != nil {
			t.Fatal(err)
		}
		if seq == 0 {
			if err := l.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, l.Offset())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "wal", segmentNames(t, dir)[0])
	segment, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(segment[ends[0]:ends[1]])
	if err := os.WriteFile(path, segment, 0o600); err != nil {
		t.Fatal(err)
	}
	l, got, err := tryOpen(dir, Options{})
	if err != nil {
		t.Fatalf("a record that was not durable is taken for damage: %v", err)
	}
	defer l.Close()
	if len(got) != 1 || l.Repair() == nil {
		t.Errorf("%d records, repair %v; want the one that was synced, and a note", len(got), l.Repair())
	}
}

func TestCreateAndOpenCheckWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := tryOpen(dir, Options{}); !errors.Is(err, ErrNotExist) {
		t.Errorf("Open of an empty directory: %v, want ErrNotExist", err)
	}
	l := create(t, dir, Options{})
	if err := l.Snapshots().Save(SnapshotInfo{Index: 1}, body("x")); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := Create(dir, nil, Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("Create over a log: %v, want ErrExists", err)
	}
	for _, name := range segmentNames(t, dir) {
		os.Remove(filepath.Join(dir, "wal", name))
	}
	if _, err := Create(dir, nil, Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("Create over snapshots: %v, want ErrExists", err)
	}
	if _, _, err := tryOpen(dir, Options{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Open of snapshots without a log: %v, want ErrCorrupt", err)
	}
}

// A caller may change its metadata afterwards: each segment has those of the first.
func TestMetadataIsCopied(t *testing.T) {
	opts := Options{FS: waltest.NewDisk().FS(), SegmentBytes: 2048}
	meta := []byte("member 1")
	l, err := Create("/d", meta, opts)
	if err != nil {
		t.Fatal(err)
	}
	meta[7] = '2'
	write(t, l, 1900, 1900)
	l.Close()
	l, got, err := tryOpen("/d", opts)
	if err != nil || len(got) != 2 || string(l.Meta()) != "member 1" {
		t.Errorf("%d records, %v; want two, and the metadata of Create", len(got), err)
	}
}

// Metadata have a bound, at which a log can be opened again.
func TestMetadataOfALogIsBounded(t *testing.T) {
	const most = 1 << 20
	opts := Options{FS: waltest.NewDisk().FS(), SegmentBytes: 2048}
	if l, err := Create("/d", make([]byte, most+1), opts); err == nil || !strings.Contains(err.Error(), "are the limit") {
		t.Errorf("metadata of more than 1 MiB: %v, %v; want them refused", l, err)
	}
	l, err := Create("/d", make([]byte, most), opts)
	if err != nil {
		t.Fatal(err)
	}
	write(t, l, 10)
	l.Close()
	l, got := open(t, "/d", opts)
	wantRecords(t, got, 1, 10)
	if len(l.Meta()) != most {
		t.Errorf("metadata of 1 MiB come back as %d bytes", len(l.Meta()))
	}
}

func TestReplayErrorEndsOpen(t *testing.T) {
	dir, stop := t.TempDir(), errors.New("stop")
	l := create(t, dir, Options{})
	write(t, l, 1)
	l.Close()
	if _, err := Open(dir, Options{}, func(Record) error { return stop }); err != stop {
		t.Errorf("got %v, want the callback's own error", err)
	}
	open(t, dir, Options{}) // the lock was given back
}

func TestClosedLogSaysSo(t *testing.T) {
	l := create(t, t.TempDir(), Options{})
	write(t, l, 10)
	l.Close()
	_, appended := l.Append(Record{})
	for what, err := range map[string]error{"Append": appended, "Flush": l.Flush(), "Sync": l.Sync()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", what, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// A file that cannot be closed is told, too, and the lock is given back.
func TestCloseGivesTheLockBackAnyhow(t *testing.T) {
	w := &watchedFS{FS: waltest.NewDisk().FS()}
	l := create(t, "/d", Options{FS: w})
	w.closes = syscall.EIO
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close of a file that cannot be closed: %v, want %v", err, syscall.EIO)
	}
	w.closes = nil
	if l, _, err := tryOpen("/d", Options{FS: w}); err != nil {
		t.Errorf("opened again: %v, want the lock to be free", err)
	} else {
		l.Close()
	}
}

// A lock that is not given back is told: the next process would be refused.
func TestCloseTellsThatTheLockStays(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs})
	fs.Fault = func(op, _ string) error {
		if op == "unlock" {
			return syscall.EIO
		}
		return nil
	}
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: %v, want %v", err, syscall.EIO)
	}
}

// The writes of the log are told: their bytes are those that the log has more of.
func TestWritesAreTold(t *testing.T) {
	var bytes []int
	l := create(t, t.TempDir(), Options{Wrote: func(n int, took time.Duration) {
		bytes = append(bytes, n)
		if took < 0 {
			t.Errorf("a write took %v", took)
		}
	}})
	if _, err := l.Append(Record{Kind: 1, Payload: payload(1, 10)}, Record{Kind: 1, Payload: payload(2, 20)}); err != nil {
		t.Fatal(err)
	}
	if len(bytes) != 0 {
		t.Errorf("writes of %v bytes are told before anything is written", bytes)
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if len(bytes) != 1 || bytes[0] < 30 || bytes[0] > 200 {
		t.Errorf("writes of %v bytes are told, want one of two records with 30 bytes", bytes)
	}
	if err := l.Flush(); err != nil || len(bytes) != 1 {
		t.Errorf("nothing is flushed: %v, and %d writes are told, want 1", err, len(bytes))
	}
}
