package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// oneSegment writes records to a log in memory, batch by batch, a Sync for each,
// and returns the file system, the segment's bytes and where each record starts;
// the last offset is where the log ends.
func oneSegment(t testing.TB, batches ...[]int) (*memFS, *memInode, []int) {
	t.Helper()
	m := newMemFS()
	l := create(t, "/d", Options{FS: m, SegmentBytes: 16 << 10})
	offsets := []int{int(l.off)}
	for _, sizes := range batches {
		for _, n := range sizes {
			l.Append(Record{Kind: 7, Payload: payload(l.LastSeq()+1, n)})
			offsets = append(offsets, offsets[len(offsets)-1]+recordBytes(n))
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	return m, m.dirs["/d/wal"].names["0000000000000001.wal"], offsets
}

const segmentName = "/d/wal/0000000000000001.wal"

// reopen puts seg in the place of the segment and opens the log.
func reopen(m *memFS, ino *memInode, seg []byte) ([]Record, *RepairNote, error) {
	ino.data, ino.disk = bytes.Clone(seg), nil
	l, got, err := tryOpen("/d", Options{FS: m, SegmentBytes: 16 << 10})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	return got, l.Repair(), nil
}

func TestTornTail(t *testing.T) {
	sizes := []int{100, 700, 1500}
	m, ino, offsets := oneSegment(t, sizes)
	good, last, end := bytes.Clone(ino.data), offsets[2], offsets[3]
	want := func(what string, seg []byte, dirty bool) {
		t.Helper()
		got, note, err := reopen(m, ino, seg)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		wantRecords(t, got, 1, sizes[:2]...)
		if dirty != (note != nil) || dirty && (note.File != segmentName || note.Offset != int64(last) || note.Seq != 3) {
			t.Fatalf("%s: repair note %+v", what, note)
		}
		// Once repaired there is nothing to repair, and the log goes on.
		if _, note, err := reopen(m, ino, bytes.Clone(ino.data)); err != nil || note != nil {
			t.Fatalf("%s, opened again: %v, %v", what, note, err)
		}
	}
	for cut := last; cut < end; cut++ {
		want(fmt.Sprintf("file ends at %d", cut), good[:cut], cut > last)
		zeroed := bytes.Clone(good)
		clear(zeroed[cut:])
		want(fmt.Sprintf("zeros from %d", cut), zeroed, cut > last)
	}
	for sector := last / sectorBytes; sector*sectorBytes < end; sector++ {
		lost := bytes.Clone(good)
		clear(lost[max(last, sector*sectorBytes):min(end, (sector+1)*sectorBytes)])
		want(fmt.Sprintf("sector %d lost", sector), lost, true)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 600; n += 7 {
		garbage := bytes.Clone(good)
		clear(garbage[last:])
		for i := range n {
			garbage[last+i] = byte(r.Uint32()) | 1
		}
		want(fmt.Sprintf("%d bytes of garbage", n), garbage, true)
	}
}

// Any of the records of one Sync may be torn while a later one is whole.
func TestTornInTheMiddleOfABatch(t *testing.T) {
	m, ino, offsets := oneSegment(t, []int{1000}, []int{1000, 1000, 1000})
	lost := bytes.Clone(ino.data)
	sector := (offsets[1]/sectorBytes + 1) * sectorBytes // wholly within record 2
	clear(lost[sector : sector+sectorBytes])
	got, note, err := reopen(m, ino, lost)
	if err != nil || len(got) != 1 || note == nil || note.Seq != 2 {
		t.Errorf("got %d records, %v, %v; want 1 and a note on record 2", len(got), note, err)
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
			m, ino, offsets := oneSegment(t, batches...)
			good := bytes.Clone(ino.data)
			for i := offsets[2]; i < offsets[3]; i++ { // record 3
				flipped := bytes.Clone(good)
				flipped[i] ^= 1 << (i % 8)
				_, _, err := reopen(m, ino, flipped)
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || corrupt.File != segmentName || corrupt.Offset != int64(offsets[2]) {
					t.Fatalf("bit flip at %d: %v, want a CorruptError at %d", i, err, offsets[2])
				}
				if !strings.Contains(err.Error(), "replace the member") {
					t.Fatalf("the error does not say what to do: %v", err)
				}
				if !bytes.Equal(ino.data, flipped) {
					t.Fatal("Open changed a damaged log")
				}
			}
		})
	}
}

// A sector of zeros is a torn write only if nothing says it was durable.
func TestZeroedSectorOfADurableRecord(t *testing.T) {
	m, ino, offsets := oneSegment(t, []int{2000}, []int{10})
	lost := bytes.Clone(ino.data)
	clear(lost[sectorBytes : 2*sectorBytes])
	var corrupt *CorruptError
	if _, _, err := reopen(m, ino, lost); !errors.As(err, &corrupt) || corrupt.Offset != int64(offsets[0]) {
		t.Errorf("got %v, want a CorruptError at %d", err, offsets[0])
	}
}

// Even the last record is not given up silently when its bytes are all there.
func TestDamageInTheLastRecord(t *testing.T) {
	m, ino, offsets := oneSegment(t, []int{50}, []int{2000})
	good := bytes.Clone(ino.data)
	for i := offsets[1] + recordHeaderBytes; i < offsets[2]; i++ {
		flipped := bytes.Clone(good)
		flipped[i] ^= 1 << (i % 8)
		var corrupt *CorruptError
		if _, _, err := reopen(m, ino, flipped); !errors.As(err, &corrupt) || corrupt.Offset != int64(offsets[1]) {
			t.Fatalf("bit flip at %d: %v, want a CorruptError at %d", i, err, offsets[1])
		}
	}
}

func TestDamagedSegmentHeader(t *testing.T) {
	m, ino, offsets := oneSegment(t, []int{50})
	good := bytes.Clone(ino.data)
	for i := range offsets[0] {
		flipped := bytes.Clone(good)
		flipped[i] ^= 1 << (i % 8)
		if _, _, err := reopen(m, ino, flipped); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit flip at %d: %v, want ErrCorrupt", i, err)
		}
		if _, _, err := reopen(m, ino, good[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v, want ErrCorrupt", i, err)
		}
	}
}

func TestNewerLogVersionIsRefused(t *testing.T) {
	m, ino, _ := oneSegment(t, []int{50})
	newer := bytes.Clone(ino.data)
	putVersion(newer[8:], segmentVersion+1)
	_, _, err := reopen(m, ino, newer)
	if !errors.Is(err, ErrNewerVersion) || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), segmentName) {
		t.Errorf("got %v, want ErrNewerVersion naming %s", err, segmentName)
	}
}

// TestSegmentsMustBeOneLog damages a log of several segments file by file.
func TestSegmentsMustBeOneLog(t *testing.T) {
	opts := func(m *memFS) Options { return Options{FS: m, SegmentBytes: 2048} }
	build := func() (*memFS, map[string]*memInode) {
		m := newMemFS()
		l := create(t, "/d", opts(m))
		write(t, l, 900, 900, 900, 900, 900, 900, 900)
		l.Close()
		return m, m.dirs["/d/wal"].names
	}
	const first, second, third, name4 = "0000000000000001.wal", "0000000000000003.wal", "0000000000000005.wal", "0000000000000007.wal"
	_, foreign := build()
	tests := []struct {
		name   string
		damage func(map[string]*memInode)
		want   string // in the error
	}{
		{"a segment in the middle is gone", func(s map[string]*memInode) { delete(s, second) }, "records are missing"},
		{"a segment of another log", func(s map[string]*memInode) { s[second] = foreign[second] }, "another log"},
		{"two segments have changed names", func(s map[string]*memInode) { s[second], s[third] = s[third], s[second] }, "by its name"},
		{"an earlier segment is cut short", func(s map[string]*memInode) { s[first].data = s[first].data[:1500] }, "later segments follow"},
		{"an earlier segment lost a record's worth", func(s map[string]*memInode) {
			clear(s[second].data[900:])
		}, "later segments follow"},
		{"an earlier segment lost whole records", func(s map[string]*memInode) {
			clear(s[third].data[48:])
		}, "records are missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, segments := build()
			if len(segments) != 4 || segments[name4] == nil {
				t.Fatalf("segments %v, want 4", segments)
			}
			tt.damage(segments)
			if _, _, err := tryOpen("/d", opts(m)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrCorrupt with %q", err, tt.want)
			}
		})
	}
}

// TestCrash appends, syncs, releases, crashes and opens at random. All that was
// synced must come back, in order, and nothing that was not appended.
func TestCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemFS()
		opts := Options{FS: m, SegmentBytes: int64(rapid.SampledFrom([]int{2048, 8192, 65536}).Draw(t, "segment"))}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		l, err := Create("/d", nil, opts)
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int // of all records that may be in the log; seq is index+1
		synced, first := 0, 1
		crash := func(failAfter int) {
			m.fault = nil
			if failAfter >= 0 { // die in the middle of an append or sync
				m.fault = func(op, path string) error {
					if failAfter--; failAfter < 0 {
						return errors.New("dead")
					}
					return nil
				}
				n := r.IntN(3000)
				l.Append(Record{Kind: 7, Payload: payload(uint64(len(sizes)+1), n)})
				sizes = append(sizes, n)
				l.Sync()
				m.fault = nil
			}
			l.Close()
			m.crash(r)
			var got []Record
			l, got, err = tryOpen("/d", opts)
			if err != nil {
				t.Fatalf("open after crash: %v", err)
			}
			if len(got) > 0 && int(got[0].Seq) > first || len(got) == 0 && synced >= first {
				t.Fatalf("records from %d on are gone", first)
			}
			for i, rec := range got {
				if want := int(l.FirstSeq()) + i; int(rec.Seq) != want || want > len(sizes) ||
					!bytes.Equal(rec.Payload, payload(rec.Seq, sizes[want-1])) {
					t.Fatalf("record %d is not what was appended", rec.Seq)
				}
			}
			if int(l.LastSeq()) < synced {
				t.Fatalf("log ends at %d, %d was synced", l.LastSeq(), synced)
			}
			sizes, synced = sizes[:l.LastSeq()], int(l.LastSeq())
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1, 2:
				for range rapid.IntRange(1, 6).Draw(t, "records") {
					n := rapid.IntRange(0, 3000).Draw(t, "bytes")
					if _, err := l.Append(Record{Kind: 7, Payload: payload(uint64(len(sizes)+1), n)}); err != nil {
						t.Fatal(err)
					}
					sizes = append(sizes, n)
				}
			case 3, 4:
				if err := l.Sync(); err != nil {
					t.Fatal(err)
				}
				synced = len(sizes)
			case 5: // hand over to the kernel without a sync
				if err := l.flush(); err != nil {
					t.Fatal(err)
				}
			case 6:
				crash(rapid.IntRange(-1, 8).Draw(t, "fail after"))
			case 7:
				if synced > 0 {
					first = max(first, rapid.IntRange(1, synced).Draw(t, "release"))
					if err := l.ReleaseTo(uint64(first)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		crash(-1)
		l.Close()
	})
}
