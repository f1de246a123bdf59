package wal_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// openEnds opens a log of four segments by its ends, and returns what it was given.
func openEnds(t *testing.T, disk *waltest.Disk) (*Log, []uint64) {
	t.Helper()
	var seqs []uint64
	l, err := OpenEnds("/d", Options{FS: disk.FS(), SegmentBytes: 2048}, func(r Record) error {
		seqs = append(seqs, r.Seq)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, seqs
}

func TestOpenEnds(t *testing.T) {
	disk := waltest.NewDisk()
	sizes := []int{900, 900, 900, 900, 900, 900, 900}
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	write(t, l, sizes...)
	usage := l.Usage()
	l.Close()
	l, seqs := openEnds(t, disk)
	if want := []uint64{1, 2, 7}; !slices.Equal(seqs, want) {
		t.Errorf("replayed %v, want %v", seqs, want)
	}
	if l.LastSeq() != 7 || l.FirstSeq() != 1 || l.Usage() != usage {
		t.Errorf("records %d to %d in %d bytes, want 1 to 7 in %d", l.FirstSeq(), l.LastSeq(), l.Usage(), usage)
	}
	wantNext(t, l.Reader(1), 1, sizes...)
	write(t, l, 5, 2000)
	wantNext(t, l.Reader(4), 4, 900, 900, 900, 900, 5, 2000)
	if err := l.ReleaseTo(4); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, seqs = openEnds(t, disk)
	if want := []uint64{3, 4, 9}; !slices.Equal(seqs, want) {
		t.Errorf("replayed %v, want %v", seqs, want)
	}
	wantNext(t, l.Reader(3), 3, 900, 900, 900, 900, 900, 5, 2000)
}

// The zeros behind the last record of a segment go when the next is begun, if no crash
// comes in between.
func TestOpenEndsOfSegmentsWithZeros(t *testing.T) {
	disk := waltest.NewDisk()
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900)
	l.Close()
	const second = "/d/wal/0000000000000003.wal"
	disk.WriteFile(second, append(disk.ReadFile(second), make([]byte, 1<<20+5)...))
	l, _ = openEnds(t, disk)
	wantNext(t, l.Reader(1), 1, 900, 900, 900, 900, 900)
}

// A segment may hold a single record, which then is its last one.
func TestOpenEndsOfSegmentsOfOneRecord(t *testing.T) {
	disk := waltest.NewDisk()
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	write(t, l, 1900, 1900, 1900, 1900)
	l.Close()
	_, seqs := openEnds(t, disk)
	if want := []uint64{1, 4}; !slices.Equal(seqs, want) {
		t.Errorf("replayed %v, want %v", seqs, want)
	}
}

// A segment that is not read has to show its header and its end: what the disk does not give is the
// disk's error, and a segment of a newer program is not damaged.
func TestOpenEndsReadsEachHeader(t *testing.T) {
	const second = "/d/wal/0000000000000003.wal"
	fails := func(call int, what string) func(*waltest.Disk, *waltest.FS) {
		return func(_ *waltest.Disk, fs *waltest.FS) {
			fs.Fault = func(op, path string) error {
				if op == what && path == second {
					if call--; call == 0 {
						return syscall.EIO
					}
				}
				return nil
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*waltest.Disk, *waltest.FS)
		want  error
		says  string
	}{
		"the disk does not open it":       {fails(1, "open"), syscall.EIO, ""},
		"the disk does not tell its size": {fails(1, "size"), syscall.EIO, second},
		"the disk does not give it":       {fails(1, "read"), syscall.EIO, second},
		"the disk does not give its end":  {fails(2, "read"), syscall.EIO, second},
		"a newer program's": {func(disk *waltest.Disk, _ *waltest.FS) {
			newer := disk.ReadFile(second)
			PutVersion(newer[8:], SegmentVersion+1)
			disk.WriteFile(second, newer)
		}, ErrNewerVersion, second},
		"damaged": {func(disk *waltest.Disk, _ *waltest.FS) { flip(disk, second, 17) }, ErrCorrupt, "header's checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := waltest.NewDisk()
			fs := disk.FS()
			l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
			write(t, l, 900, 900, 900, 900, 900)
			l.Close()
			c.spoil(disk, fs)
			_, err := OpenEnds("/d", Options{FS: fs, SegmentBytes: 2048}, func(Record) error { return nil })
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || c.want != ErrCorrupt && errors.Is(err, ErrCorrupt) {
				t.Errorf("opened by its ends: %v, want %v that says %q", err, c.want, c.says)
			}
		})
	}
}

// A reader finds damage in the middle, and no record takes its place.
func TestOpenEndsOfADamagedLog(t *testing.T) {
	disk := waltest.NewDisk()
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900)
	l.Close()
	const second = "/d/wal/0000000000000003.wal"
	flipped := disk.ReadFile(second)
	flipped[500] ^= 1 // in record 3
	disk.WriteFile(second, flipped)
	l, _ = openEnds(t, disk)
	r := l.Reader(2)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	var corrupt *CorruptError
	for range 2 {
		if record, err := r.Next(); !errors.As(err, &corrupt) || corrupt.File != second {
			t.Errorf("got record %d, %v; want a CorruptError of %s", record.Seq, err, second)
		}
	}
	if _, err := l.Reader(6).Next(); err != io.EOF {
		t.Errorf("behind the end: got %v, want io.EOF", err)
	}
}
