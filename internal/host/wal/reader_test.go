package wal_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// wantNext wants a reader to return records first, first+1, … with payloads of the given
// sizes, and then nothing for now.
func wantNext(t *testing.T, r *Reader, first uint64, sizes ...int) {
	t.Helper()
	var got []Record
	for {
		record, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("from record %d on the reader returns %d of %d records, then: %v", first, len(got), len(sizes), err)
		}
		got = append(got, record)
	}
	wantRecords(t, got, first, sizes...)
}

func TestReader(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, Options{SegmentBytes: 4 << 10})
	ahead := l.Reader(3)
	defer ahead.Close()
	wantNext(t, ahead, 3)
	write(t, l, 0, 100)
	r := l.Reader(1)
	defer r.Close()
	wantNext(t, r, 1, 0, 100)
	wantNext(t, ahead, 3)
	write(t, l, 3000, 10, 5000, 7, 200<<10, 1)
	wantNext(t, r, 3, 3000, 10, 5000, 7, 200<<10, 1)
	wantNext(t, ahead, 3, 3000, 10, 5000, 7, 200<<10, 1)
	if _, err := l.Append(Record{Kind: 7, Payload: payload(9, 5)}); err != nil {
		t.Fatal(err)
	}
	wantNext(t, r, 9) // the kernel has it not
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	wantNext(t, r, 9, 5)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, _ = open(t, dir, Options{SegmentBytes: 4 << 10})
	again := l.Reader(8)
	defer again.Close()
	wantNext(t, again, 8, 1, 5)
	write(t, l, 2)
	wantNext(t, again, 10, 2)
	if err := l.ReleaseTo(8); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reader(2).Next(); !errors.Is(err, ErrReleased) {
		t.Errorf("a record that was released: got %v, want ErrReleased", err)
	}
	wantNext(t, again, 11)
}

func TestReaderOfADamagedLog(t *testing.T) {
	dir := t.TempDir()
	l := create(t, dir, Options{})
	write(t, l, 100, 100, 100)
	files, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0xaa}, int64(l.Offset()-RecordBytes(100)-10)); err != nil { // in the second
		t.Fatal(err)
	}
	r := l.Reader(1)
	defer r.Close()
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
	for range 2 {
		var corrupt *CorruptError
		got, err := r.Next()
		if at := int64(l.Offset() - 2*RecordBytes(100)); !errors.As(err, &corrupt) || corrupt.File != files[0] || corrupt.Offset != at {
			t.Errorf("a damaged record: got %v, %v; want a CorruptError at %d", got, err, at)
		}
	}
}

// A Reader takes no record for that of another number, and the end of a file that was cut for no end
// of the log. Otherwise readers would wait for ever, or go on without the records in between.
func TestReaderOfALogThatIsNotWhatItWas(t *testing.T) {
	for what, change := range map[string]func(seg []byte, offsets []int) []byte{
		"a later record in its place":      func(seg []byte, at []int) []byte { copy(seg[at[1]:at[2]], seg[at[2]:]); return seg },
		"an earlier record in its place":   func(seg []byte, at []int) []byte { copy(seg[at[1]:at[2]], seg[at[0]:]); return seg },
		"a file that was cut in its midst": func(seg []byte, at []int) []byte { return seg[:at[1]+40] },
		"a file that was cut before it":    func(seg []byte, at []int) []byte { return seg[:at[1]] },
	} {
		disk := waltest.NewDisk()
		l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 16 << 10})
		offsets := []int{l.Offset()}
		for range 3 {
			write(t, l, 100)
			offsets = append(offsets, l.Offset())
		}
		disk.WriteFile(segmentName, change(disk.ReadFile(segmentName), offsets))
		r := l.Reader(1)
		defer r.Close()
		if record, err := r.Next(); err != nil || record.Seq != 1 {
			t.Errorf("%s: record %d, %v; want the first", what, record.Seq, err)
		}
		for range 2 {
			if record, err := r.Next(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: record %d, %v; want ErrCorrupt", what, record.Seq, err)
			}
		}
	}
}

// Records handed to the kernel can be read at once, to the last one.
func TestReaderOfABatch(t *testing.T) {
	l := create(t, "/d", Options{FS: waltest.NewDisk().FS(), SegmentBytes: 2048})
	for seq := range uint64(3) {
		if _, err := l.Append(Record{Kind: 7, Payload: payload(seq+1, 900)}); err != nil {
			t.Fatal(err)
		}
	}
	wantNext(t, l.Reader(1), 1)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	wantNext(t, l.Reader(1), 1, 900, 900, 900)
}

// A Reader returns no record that the kernel has yet to take. Otherwise it would take the zeros in its
// place for damage.
func TestAReaderDuringAWriteWaitsForIt(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs})
	write(t, l, 10)
	r := l.Reader(2)
	defer r.Close()
	writes := 0
	fs.Fault = func(op, _ string) error {
		if op == "write" {
			writes++
			if record, err := r.Next(); err != io.EOF {
				t.Errorf("a reader during the write of its next record returns record %d, %v; want io.EOF", record.Seq, err)
			}
		}
		return nil
	}
	write(t, l, 10)
	if writes != 1 {
		t.Errorf("%d writes, want one", writes)
	}
	wantNext(t, r, 2, 10)
}

// A Reader opens each segment once, and gives up the one before.
func TestReaderOpensEachSegmentOnce(t *testing.T) {
	w := &watchedFS{FS: waltest.NewDisk().FS()}
	l := create(t, "/d", Options{FS: w, SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900)
	opened := 0
	w.opened = func() { opened++ }
	r := l.Reader(1)
	wantNext(t, r, 1, 900, 900, 900, 900, 900)
	if opened != 3 || w.open != 2 {
		t.Errorf("of three segments a reader opened %d, and with the log's %d files are open; want 3 and 2", opened, w.open)
	}
	if r.Close(); w.open != 1 {
		t.Errorf("it was closed, and %d files are open, want the log's own", w.open)
	}
}

// A disk that fails once damages nothing: the reader tells of the failure, and goes on when the
// disk does, whichever of its calls had failed.
func TestReaderOfADiskThatFailsOnce(t *testing.T) {
	for _, op := range []string{"open", "read"} {
		for call := 1; ; call++ {
			fs := waltest.NewDisk().FS()
			l := create(t, "/d", Options{SegmentBytes: 4 << 10, FS: fs})
			write(t, l, 3000, 3000, 3000) // each in a segment of its own
			calls := 0
			fs.Fault = func(got, path string) error {
				if got == op {
					calls++
				}
				if got == op && calls == call {
					return syscall.EIO
				}
				return nil
			}
			r := l.Reader(1)
			failed := 0
			for seq := uint64(1); seq <= 3; {
				record, err := r.Next()
				if err == nil && record.Seq == seq {
					seq++
				} else if failed++; !errors.Is(err, syscall.EIO) || failed > 1 {
					t.Fatalf("call %d of %s failed, once: at record %d the reader says %v", call, op, seq, err)
				}
			}
			r.Close()
			if open := fs.Open(); len(open) != 1 {
				t.Errorf("call %d of %s failed: behind the reader are open %q, want the last segment only", call, op, open)
			}
			if calls < call {
				break
			}
		}
	}
}

// Readers and the appending goroutine do not wait for each other.
func TestReadersBesideAWriter(t *testing.T) {
	l := create(t, t.TempDir(), Options{SegmentBytes: 8 << 10})
	const n = 500
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			r := l.Reader(1)
			defer r.Close()
			for seq := uint64(1); seq <= n; {
				record, err := r.Next()
				if err == io.EOF {
					continue
				}
				if err != nil || record.Seq != seq {
					t.Errorf("record %d: got %d, %v", seq, record.Seq, err)
					return
				}
				seq++
			}
		})
	}
	for i := range n {
		if _, err := l.Append(Record{Kind: 7, Payload: payload(uint64(i), i)}); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}
