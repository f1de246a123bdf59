package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// oneSegment writes records to a log in memory, batch by batch, a Sync for each,
// and returns the disk, which holds segmentName, and where each record starts;
// the last offset is where the log ends.
func oneSegment(t testing.TB, batches ...[]int) (*waltest.Disk, []int) {
	t.Helper()
	disk := waltest.NewDisk()
	l := create(t, "/d", Options{FS: disk.FS(), SegmentBytes: 16 << 10})
	offsets := []int{l.Offset()}
	for _, sizes := range batches {
		for _, n := range sizes {
			l.Append(Record{Kind: 7, Payload: payload(l.LastSeq()+1, n)})
			offsets = append(offsets, offsets[len(offsets)-1]+RecordBytes(n))
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	return disk, offsets
}

const segmentName = "/d/wal/0000000000000001.wal"

// reopen puts seg in the place of the segment and opens the log.
func reopen(disk *waltest.Disk, seg []byte) ([]Record, *RepairNote, error) {
	disk.WriteFile(segmentName, seg)
	l, got, err := tryOpen("/d", Options{FS: disk.FS(), SegmentBytes: 16 << 10})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	return got, l.Repair(), nil
}

func TestTornTail(t *testing.T) {
	sizes := []int{100, 700, 1500}
	disk, offsets := oneSegment(t, sizes)
	good, last, end := disk.ReadFile(segmentName), offsets[2], offsets[3]
	want := func(what string, seg []byte, dirty bool) {
		t.Helper()
		got, note, err := reopen(disk, seg)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		wantRecords(t, got, 1, sizes[:2]...)
		if dirty != (note != nil) || dirty && (note.File != segmentName || note.Offset != int64(last) || note.Seq != 3) {
			t.Fatalf("%s: repair note %+v", what, note)
		}
		// Once repaired there is nothing to repair, and the log goes on.
		if _, note, err := reopen(disk, disk.ReadFile(segmentName)); err != nil || note != nil {
			t.Fatalf("%s, opened again: %v, %v", what, note, err)
		}
	}
	for cut := last; cut < end; cut++ {
		zeroed := bytes.Clone(good)
		clear(zeroed[cut:])
		want(fmt.Sprintf("zeros from %d", cut), zeroed, cut > last)
	}
	for sector := last / SectorBytes; sector*SectorBytes < end; sector++ {
		lost := bytes.Clone(good)
		clear(lost[max(last, sector*SectorBytes):min(end, (sector+1)*SectorBytes)])
		want(fmt.Sprintf("sector %d lost", sector), lost, true)
	}
}

// A batch that is larger than the segment makes the file grow, and a crash may lose that.
func TestTornGrowth(t *testing.T) {
	disk, offsets := oneSegment(t, []int{20_000})
	good := disk.ReadFile(segmentName)
	for size := 16 << 10; size < offsets[1]; size += 97 {
		got, note, err := reopen(disk, good[:size])
		if err != nil || note == nil {
			t.Fatalf("the file did not grow beyond %d: %v, %v; want a repair", size, note, err)
		}
		wantRecords(t, got, 1)
	}
}

// refused wants that a log is not opened, with an error that says how it is known.
func refused(t *testing.T, disk *waltest.Disk, what string, seg []byte, says string) {
	t.Helper()
	got, note, err := reopen(disk, seg)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), says) {
		t.Fatalf("%s: %d records, %v, %v; want ErrCorrupt saying %q: what was acknowledged is lost in silence", what, len(got), note, err, says)
	}
	if !bytes.Equal(disk.ReadFile(segmentName), seg) {
		t.Fatalf("%s: Open changed a damaged log", what)
	}
}

// The space of a segment is there before its name is. A file that is shorter was cut, by
// whomever, and what was in it may have been acknowledged.
func TestACutSegmentIsRefused(t *testing.T) {
	disk, offsets := oneSegment(t, []int{100}, []int{700}, []int{1500})
	good := disk.ReadFile(segmentName)
	for size := offsets[0]; size < len(good); size += 61 {
		refused(t, disk, fmt.Sprintf("cut to %d bytes", size), good[:size], "was cut")
	}
	refused(t, disk, "cut by a byte", good[:len(good)-1], "was cut")
}

// No bit of a record can turn so that the record is taken for one that was never written:
// neither of one that fills a sector's part, nor of one that is spread over several.
func TestNoFlippedBitIsATornWrite(t *testing.T) {
	for _, before := range []int{0, 300, 400, 424, 432, 440, 448} { // the header at and over a sector's edge
		for _, n := range []int{0, 3, 100, 900} {
			disk, offsets := oneSegment(t, []int{before}, []int{n})
			good := disk.ReadFile(segmentName)
			for i := offsets[1]; i < offsets[2]; i++ {
				bits := []int{i % 8}
				if n < 100 || i < offsets[1]+RecordBytes(0) {
					bits = []int{0, 1, 2, 3, 4, 5, 6, 7}
				}
				for _, bit := range bits {
					flipped := bytes.Clone(good)
					flipped[i] ^= 1 << bit
					refused(t, disk, fmt.Sprintf("after %d bytes, %d bytes: bit %d of byte %d turned", before, n, bit, i-offsets[1]), flipped, "record 2 is damaged")
				}
			}
		}
	}
}

// The records of a log have no gap. One that was written to the place of the record before it is
// whole, and not the one that belongs there.
func TestARecordInThePlaceOfAnother(t *testing.T) {
	disk, offsets := oneSegment(t, []int{100}, []int{700}, []int{700}, []int{100})
	for what, moved := range map[string][2]int{"a later record": {2, 3}, "a record and what follows": {2, 4}, "an earlier record": {0, 1}} {
		seg := disk.ReadFile(segmentName)
		clear(seg[offsets[1]:])
		copy(seg[offsets[1]:], disk.ReadFile(segmentName)[offsets[moved[0]]:offsets[moved[1]]])
		refused(t, disk, what+" in the place of record 2", seg, "record 2 is damaged")
		disk, offsets = oneSegment(t, []int{100}, []int{700}, []int{700}, []int{100})
	}
}

func TestGarbageIsNotATornWrite(t *testing.T) {
	disk, offsets := oneSegment(t, []int{100}, []int{700})
	r := rand.New(rand.NewPCG(1, 2))
	for n := RecordBytes(0); n < 600; n += 7 {
		garbage := disk.ReadFile(segmentName)
		clear(garbage[offsets[1]:])
		for i := range n {
			garbage[offsets[1]+i] = byte(r.Uint32()) | 1
		}
		refused(t, disk, fmt.Sprintf("%d bytes of garbage", n), garbage, "record 2 is damaged")
	}
}

// Any of the records of one Sync may be torn while a later one is whole.
func TestTornInTheMiddleOfABatch(t *testing.T) {
	disk, offsets := oneSegment(t, []int{1000}, []int{1000, 1000, 1000})
	lost := disk.ReadFile(segmentName)
	sector := (offsets[1]/SectorBytes + 1) * SectorBytes // wholly within record 2
	clear(lost[sector : sector+SectorBytes])
	got, note, err := reopen(disk, lost)
	if err != nil || len(got) != 1 || note == nil || note.Seq != 2 {
		t.Errorf("a batch torn in its middle: got %d records, %v, %v; want 1 and a note on record 2", len(got), note, err)
	}
}

func TestDamageInTheMiddle(t *testing.T) {
	tests := map[string][][]int{
		"a later record proves that it was durable": {{50, 60}, {70}, {80}},
		"all sectors of the batch are there":        {{50}, {60, 70, 80}},
		"zeros in the payload do not look torn":     {{50}, {60, 2000, 80}}, // payload has many
	}
	for name, batches := range tests {
		t.Run(name, func(t *testing.T) {
			disk, offsets := oneSegment(t, batches...)
			good := disk.ReadFile(segmentName)
			for i := offsets[2]; i < offsets[3]; i++ { // record 3
				flipped := bytes.Clone(good)
				flipped[i] ^= 1 << (i % 8)
				_, _, err := reopen(disk, flipped)
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || corrupt.File != segmentName || corrupt.Offset != int64(offsets[2]) {
					t.Fatalf("bit flip at %d: %v, want a CorruptError at %d", i, err, offsets[2])
				}
				if !strings.Contains(err.Error(), "replace the member") {
					t.Fatalf("the error does not say what to do: %v", err)
				}
				if !bytes.Equal(disk.ReadFile(segmentName), flipped) {
					t.Fatal("Open changed a damaged log")
				}
			}
		})
	}
}

// A disk may put a record where another log's belongs that has the same number.
func TestRecordOfAnotherLog(t *testing.T) {
	batches := [][]int{{50}, {60}, {70}}
	disk, offsets := oneSegment(t, batches...)
	other, _ := oneSegment(t, batches...)
	mixed := disk.ReadFile(segmentName)
	copy(mixed[offsets[1]:offsets[2]], other.ReadFile(segmentName)[offsets[1]:])
	var corrupt *CorruptError
	if got, _, err := reopen(disk, mixed); !errors.As(err, &corrupt) || corrupt.Offset != int64(offsets[1]) {
		t.Errorf("got %d records, %v; want a CorruptError at %d", len(got), err, offsets[1])
	}
}

// A sector of zeros is a torn write only if nothing says it was durable.
func TestZeroedSectorOfADurableRecord(t *testing.T) {
	disk, offsets := oneSegment(t, []int{2000}, []int{10})
	lost := disk.ReadFile(segmentName)
	clear(lost[SectorBytes : 2*SectorBytes])
	var corrupt *CorruptError
	if _, _, err := reopen(disk, lost); !errors.As(err, &corrupt) || corrupt.Offset != int64(offsets[0]) {
		t.Errorf("got %v, want a CorruptError at %d", err, offsets[0])
	}
}

// Even the last record is not given up silently when its bytes are all there.
func TestDamageInTheLastRecord(t *testing.T) {
	disk, offsets := oneSegment(t, []int{50}, []int{2000})
	good := disk.ReadFile(segmentName)
	for i := offsets[1] + RecordHeaderBytes; i < offsets[2]; i++ {
		flipped := bytes.Clone(good)
		flipped[i] ^= 1 << (i % 8)
		var corrupt *CorruptError
		if _, _, err := reopen(disk, flipped); !errors.As(err, &corrupt) || corrupt.Offset != int64(offsets[1]) {
			t.Fatalf("bit flip at %d: %v, want a CorruptError at %d", i, err, offsets[1])
		}
	}
}

func TestDamagedSegmentHeader(t *testing.T) {
	disk, offsets := oneSegment(t, []int{50})
	good := disk.ReadFile(segmentName)
	for i := range offsets[0] {
		flipped := bytes.Clone(good)
		flipped[i] ^= 1 << (i % 8)
		if _, _, err := reopen(disk, flipped); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit flip at %d: %v, want ErrCorrupt", i, err)
		}
		if _, _, err := reopen(disk, good[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v, want ErrCorrupt", i, err)
		}
	}
}

// A header may be whole and say what cannot be.
func TestSegmentHeadersThatCannotBe(t *testing.T) {
	disk, offsets := oneSegment(t, []int{50})
	good := disk.ReadFile(segmentName)
	disk.FS().Remove(segmentName)
	for _, c := range []struct {
		path, says string
		change     func(head []byte)
	}{
		{segmentName, "version is damaged", func(head []byte) { PutVersion(head[8:], 0) }},
		{"/d/wal/0000000000000000.wal", "sequence number 0", func(head []byte) { binary.LittleEndian.PutUint64(head[24:], 0) }},
		{segmentName, "impossible length", func(head []byte) { binary.LittleEndian.PutUint32(head[32:], 1<<20+1) }},
	} {
		b := bytes.Clone(good)
		c.change(b)
		sum := offsets[0] - 4
		binary.LittleEndian.PutUint32(b[sum:], crc32.Checksum(b[:sum], crc32.MakeTable(crc32.Castagnoli)))
		disk.WriteFile(c.path, b)
		if _, got, err := tryOpen("/d", Options{FS: disk.FS(), SegmentBytes: 16 << 10}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d records, %v; want ErrCorrupt with %q", len(got), err, c.says)
		}
		disk.FS().Remove(c.path)
	}
}

// A note says where the log ends now, and how many bytes that were written are gone.
func TestRepairNoteSaysWhatIsGone(t *testing.T) {
	disk, offsets := oneSegment(t, []int{100, 700, 1500})
	seg := disk.ReadFile(segmentName)
	cut := offsets[3] - SectorBytes
	clear(seg[cut:])
	dropped := int64(len(bytes.TrimRight(seg, "\x00")) - offsets[2])
	_, note, err := reopen(disk, seg)
	if err != nil || note == nil {
		t.Fatalf("a torn record: %v, %v", note, err)
	}
	if want := (RepairNote{File: segmentName, Offset: int64(offsets[2]), Bytes: dropped, Seq: 3}); *note != want {
		t.Errorf("the note is %+v, want %+v", *note, want)
	}
	if want := fmt.Sprintf("%s: dropped %d bytes at offset %d: record 3 was", segmentName, dropped, offsets[2]); !strings.HasPrefix(note.String(), want) {
		t.Errorf("it says %q, want %q", note, want)
	}
}

func TestNewerLogVersionIsRefused(t *testing.T) {
	disk, _ := oneSegment(t, []int{50})
	newer := disk.ReadFile(segmentName)
	PutVersion(newer[8:], SegmentVersion+1)
	_, _, err := reopen(disk, newer)
	if !errors.Is(err, ErrNewerVersion) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), segmentName) {
		t.Errorf("got %v, want ErrNewerVersion naming %s", err, segmentName)
	}
}

// TestSegmentsMustBeOneLog damages a log of several segments file by file.
func TestSegmentsMustBeOneLog(t *testing.T) {
	opts := func(disk *waltest.Disk) Options { return Options{FS: disk.FS(), SegmentBytes: 2048} }
	build := func() *waltest.Disk {
		disk := waltest.NewDisk()
		l := create(t, "/d", opts(disk))
		write(t, l, 900, 900, 900, 900, 900, 900, 900)
		l.Close()
		return disk
	}
	const first, second, third, fourth = "/d/wal/0000000000000001.wal", "/d/wal/0000000000000003.wal", "/d/wal/0000000000000005.wal", "/d/wal/0000000000000007.wal"
	foreign := build().ReadFile(second)
	tests := []struct {
		name   string
		damage func(disk *waltest.Disk)
		want   string // in the error
	}{
		{"a segment in the middle is gone", func(disk *waltest.Disk) {
			disk.FS().Remove(second)
		}, "records are missing"},
		{"a segment of another log", func(disk *waltest.Disk) {
			disk.WriteFile(second, foreign)
		}, "another log"},
		{"a segment of another member's log", func(disk *waltest.Disk) {
			b := disk.ReadFile(second)
			meta := bytes.Index(b, []byte("member 1"))
			b[meta+len("member ")] = '2'
			sum := meta + len("member 1")
			binary.LittleEndian.PutUint32(b[sum:], crc32.Checksum(b[:sum], crc32.MakeTable(crc32.Castagnoli)))
			disk.WriteFile(second, b)
		}, "another log"},
		{"two segments have changed names", func(disk *waltest.Disk) {
			was := disk.ReadFile(second)
			disk.WriteFile(second, disk.ReadFile(third))
			disk.WriteFile(third, was)
		}, "by its name"},
		{"an earlier segment is cut short", func(disk *waltest.Disk) {
			disk.WriteFile(first, disk.ReadFile(first)[:1500])
		}, "later segments follow"},
		{"something follows in an earlier segment", func(disk *waltest.Disk) {
			disk.WriteFile(second, append(disk.ReadFile(second), 1, 2, 3))
		}, "later segments follow"},
		{"an earlier segment lost a record's worth", func(disk *waltest.Disk) {
			b := disk.ReadFile(second)
			clear(b[900:])
			disk.WriteFile(second, b)
		}, "later segments follow"},
		{"an earlier segment lost whole records", func(disk *waltest.Disk) {
			b := disk.ReadFile(third)
			clear(b[56:])
			disk.WriteFile(third, b)
		}, "records are missing"},
		{"an earlier segment lost its last record", func(disk *waltest.Disk) {
			b := disk.ReadFile(second)
			clear(b[56+RecordBytes(900):])
			disk.WriteFile(second, b)
		}, "records are missing"},
		{"an earlier segment's last record is damaged", func(disk *waltest.Disk) {
			flip(disk, second, 56+RecordBytes(900)+500)
		}, "later segments follow"},
		{"the last segment is gone", func(disk *waltest.Disk) {
			disk.FS().Remove(fourth)
		}, "segments that followed"},
		{"the last two segments are gone", func(disk *waltest.Disk) {
			disk.FS().Remove(fourth)
			disk.FS().Remove(third)
		}, "segments that followed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			disk := build()
			if names, err := disk.FS().ReadDir("/d/wal"); len(names) != 4 || disk.ReadFile(fourth) == nil {
				t.Fatalf("segments %v, %v, want 4", names, err)
			}
			tt.damage(disk)
			if _, _, err := tryOpen("/d", opts(disk)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrCorrupt with %q", err, tt.want)
			}
			if _, err := OpenEnds("/d", opts(disk), func(Record) error { return nil }); !errors.Is(err, ErrCorrupt) {
				t.Errorf("its ends: got %v, want ErrCorrupt", err)
			}
		})
	}
}
