package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// TestWhatWasSyncedIsNeverLostInSilence damages the last segment at every byte, in each of
// the ways that can be told from a crash: all that was synced comes back, or Open refuses.
func TestWhatWasSyncedIsNeverLostInSilence(t *testing.T) {
	sizes := []int{40, 700, 0, 513, 90}
	disk, offsets := oneSegment(t, sizes[:2], sizes[2:4], sizes[4:])
	good, end := disk.ReadFile(segmentName), offsets[len(sizes)]
	try := func(what string, seg []byte) {
		t.Helper()
		got, note, err := reopen(disk, seg)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerVersion) {
				t.Fatalf("%s: %v, want ErrCorrupt", what, err)
			}
			return
		}
		if len(got) != len(sizes) {
			t.Fatalf("%s: %d records of %d that were synced come back, and Open says %v", what, len(got), len(sizes), note)
		}
		wantRecords(t, got, 1, sizes...)
	}
	for i := range end + 64 {
		flipped := bytes.Clone(good)
		flipped[i] ^= 1 << (i % 8)
		try(fmt.Sprintf("bit %d of byte %d turned", i%8, i), flipped)
		try(fmt.Sprintf("cut to %d bytes", i), good[:i])
		if i < offsets[4] { // what is durable by the last record's word
			zeroed := bytes.Clone(good)
			clear(zeroed[i:min(i+SectorBytes, offsets[4])])
			try(fmt.Sprintf("zeros from %d on", i), zeroed)
		}
		garbled := bytes.Clone(good)
		for j := i; j < min(i+9, end); j++ {
			garbled[j] ^= 0x55
		}
		try(fmt.Sprintf("bytes from %d on turned", i), garbled)
		moved := bytes.Clone(good)
		copy(moved[i:], good[max(0, min(i, end)-32):end])
		try(fmt.Sprintf("all from %d on moved", i), moved)
	}
}

// Segments that a program before this one wrote are read, and followed by one of this
// program's version.
func TestSegmentsOfVersion1(t *testing.T) {
	for file, sizes := range map[string][]int{"testdata/version-1.wal": {0, 10, 600}, "testdata/version-1-empty.wal": {}} {
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		disk := waltest.NewDisk()
		opts := Options{FS: disk.FS(), SegmentBytes: 2048}
		create(t, "/d", opts).Close()
		disk.WriteFile(segmentName, old)
		sizes := sizes
		for range 3 {
			l, got := open(t, "/d", opts)
			wantRecords(t, got, 1, sizes...)
			write(t, l, 50)
			sizes = append(sizes[:len(sizes):len(sizes)], 50)
			r := l.Reader(1)
			for seq := range sizes {
				if rec, err := r.Next(); err != nil || rec.Seq != uint64(seq+1) {
					t.Fatalf("%s: read record %d as %d, %v", file, seq+1, rec.Seq, err)
				}
			}
			r.Close()
			l.Close()
			ends, err := OpenEnds("/d", opts, func(Record) error { return nil })
			if err != nil || ends.LastSeq() != uint64(len(sizes)) {
				t.Fatalf("%s: its ends: %v", file, err)
			}
			ends.Close()
		}
		if b := disk.ReadFile(fmt.Sprintf("/d/wal/%016x.wal", len(sizes)-2)); len(b) < 12 || b[8] != SegmentVersion {
			t.Errorf("%s: what was appended is not in a segment of version %d", file, SegmentVersion)
		}
	}
}

// A segment of version 1 that holds a single record is followed, and not replaced.
func TestASegmentOfVersion1OfOneRecord(t *testing.T) {
	old, err := os.ReadFile("testdata/version-1.wal")
	if err != nil {
		t.Fatal(err)
	}
	clear(old[48+RecordBytes(0):]) // behind the header and the first record
	disk := waltest.NewDisk()
	opts := Options{FS: disk.FS(), SegmentBytes: 2048}
	create(t, "/d", opts).Close()
	disk.WriteFile(segmentName, old)
	l, got := open(t, "/d", opts)
	wantRecords(t, got, 1, 0)
	write(t, l, 50)
	if l.FirstSeq() != 1 {
		t.Errorf("the log begins with record %d, want 1", l.FirstSeq())
	}
	wantNext(t, l.Reader(1), 1, 0, 50)
}

// A process may die between any two steps of beginning a segment of the newer version.
func TestVersion1CrashesAtEveryPoint(t *testing.T) {
	for file, sizes := range map[string][]int{"testdata/version-1.wal": {0, 10, 600}, "testdata/version-1-empty.wal": {}} {
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for at := range 30 {
			disk := waltest.NewDisk()
			create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048}).Close()
			disk.WriteFile(segmentName, old)
			fs, n := disk.FS(), 0
			fs.Fault = func(string, string) error {
				if n++; n > at {
					return errors.New("dead")
				}
				return nil
			}
			if l, _, err := tryOpen("/d", Options{FS: fs, SegmentBytes: 2048}); err == nil {
				l.Close()
			}
			disk.Exit()
			l, got := open(t, "/d", Options{FS: disk.FS(), SegmentBytes: 2048})
			wantRecords(t, got, 1, sizes...)
			l.Close()
		}
	}
}

// A crash while the end of the log is cleared leaves an end that is cleared again, wherever the
// write of zeros ends: behind a sector, in a record's first one, in its header.
func TestRepairCrashesAtEveryPoint(t *testing.T) {
	disk, offsets := oneSegment(t, []int{100}, []int{3000})
	whole := disk.ReadFile(segmentName)
	ends := map[string][]byte{"a sector was lost": bytes.Clone(whole)}
	clear(ends["a sector was lost"][offsets[1]/SectorBytes*SectorBytes+SectorBytes:][:SectorBytes])
	for _, n := range []int{25, 32, 40, 47, 48, 60, 100, 300} {
		end := bytes.Clone(whole)
		clear(end[offsets[1]+n:])
		ends[fmt.Sprintf("a write of %d bytes failed behind %d", offsets[2]-offsets[1], n)] = end
	}
	for name, torn := range ends {
		for at := 1; at < 40; at++ {
			for seed := range uint64(5) {
				disk.WriteFile(segmentName, torn)
				fs, n := disk.FS(), 0
				fs.Fault = func(string, string) error {
					if n++; n >= at {
						return errors.New("dead")
					}
					return nil
				}
				if l, _, err := tryOpen("/d", Options{FS: fs, SegmentBytes: 16 << 10}); err == nil {
					l.Close()
				}
				if seed == 0 { // the process alone dies
					disk.Exit()
				} else {
					disk.Crash(rand.New(rand.NewPCG(seed, uint64(at))))
				}
				l, got, err := tryOpen("/d", Options{FS: disk.FS(), SegmentBytes: 16 << 10})
				if err != nil {
					t.Fatalf("%s: after a crash within the repair, at call %d: %v", name, at, err)
				}
				wantRecords(t, got, 1, 100)
				l.Close()
			}
		}
	}
}

// calls runs f, and lists the calls of the file system of some kinds.
func calls(fs *waltest.FS, f func(), ops ...string) (list []string) {
	fs.Fault = func(op, path string) error {
		if slices.Contains(ops, op) {
			list = append(list, op+" "+path)
		}
		return nil
	}
	f()
	fs.Fault = nil
	return list
}

// A segment's name must be gone, durably, before the next one's goes: names may go in any
// order, and a log with a hole is refused.
func TestReleaseLeavesNoHole(t *testing.T) {
	fs := waltest.NewDisk().FS()
	l := create(t, "/d", Options{FS: fs, SegmentBytes: 2048})
	write(t, l, 900, 900, 900, 900, 900, 900, 900)
	got := calls(fs, func() {
		if err := l.ReleaseTo(7); err != nil {
			t.Fatal(err)
		}
	}, "remove", "syncdir")
	want := []string{
		"remove /d/wal/0000000000000001.wal", "syncdir /d/wal",
		"remove /d/wal/0000000000000003.wal", "syncdir /d/wal",
		"remove /d/wal/0000000000000005.wal", "syncdir /d/wal",
	}
	if !slices.Equal(got, want) {
		t.Errorf("segments are not released one by one, durably and in order: %q, want %q", got, want)
	}
}

// A log that is there for its owner is there after a power cut, with the directory that was
// made for it.
func TestCreateMakesItsDirectoryDurable(t *testing.T) {
	fs := waltest.NewDisk().FS()
	got := calls(fs, func() { create(t, "/a/b", Options{FS: fs, SegmentBytes: 2048}) }, "syncdir")
	for _, dir := range []string{"/a", "/a/b", "/a/b/wal"} {
		if !slices.Contains(got, "syncdir "+dir) {
			t.Errorf("the directory itself is not made durable in %s: %q", dir, got)
		}
	}
}
