package wal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tenure-lease/tenure/internal/wire"
)

// Bytes that cannot be a record's header are not taken for one, though the checksum is
// right.
func TestHeadersOfRecords(t *testing.T) {
	c := newCodec(1)
	for _, tt := range []struct {
		name   string
		length uint32
		seq    uint64
		lag    uint32
		ok     bool
	}{
		{"of an empty payload", 0, 1, 1, true},
		{"of the largest payload", 1 << 30, 7, 1, true},
		{"of a payload that is larger", 1<<30 + 1, 7, 1, false},
		{"of a record that was durable before it was written", 10, 7, 0, false},
		{"of a record before which nothing was durable", 10, 7, 7, true},
		{"of one that is older than the log", 10, 7, 8, false},
	} {
		b := make([]byte, recordHeaderBytes)
		le.PutUint32(b, tt.length)
		le.PutUint64(b[8:], tt.seq)
		le.PutUint32(b[16:], tt.lag)
		b[20] = 9
		putSum24(b[21:], c.headerSum(b))
		want := header{}
		if tt.ok {
			want = header{seq: tt.seq, durable: tt.seq - uint64(tt.lag), kind: 9, length: int(tt.length), size: recordBytes(int(tt.length))}
		}
		if h, ok := c.parseHeader(b); ok != tt.ok || h != want {
			t.Errorf("a header %s: %+v, %v; want %+v, %v", tt.name, h, ok, want, tt.ok)
		}
		if h, ok := c.parseHeader(b[:recordHeaderBytes-1]); ok {
			t.Errorf("a header %s, cut by a byte: %+v", tt.name, h)
		}
		for i := range 3 {
			b[21+i] ^= 1
			if h, ok := c.parseHeader(b); ok {
				t.Errorf("a header %s, its checksum wrong in byte %d: %+v", tt.name, i, h)
			}
			b[21+i] ^= 1
		}
	}
}

// A record tells how far the log was durable. Where that is further back than its field can say it tells
// less, and never more.
func TestHowFarBackARecordCanTell(t *testing.T) {
	c := newCodec(1)
	for _, tt := range []struct{ seq, durable, want uint64 }{
		{8, 7, 7}, {8, 0, 0}, {1 << 40, 1<<40 - 1, 1<<40 - 1},
		{1<<32 + 8, 8, 9}, {1<<32 + 8, 9, 9}, {1<<32 + 8, 7, 9}, {1<<40 + 5, 5, 1<<40 + 5 - (1<<32 - 1)},
	} {
		h, ok := c.parseHeader(c.append(nil, tt.seq, tt.durable, 1, nil))
		if !ok || h.durable != tt.want {
			t.Errorf("record %d, written when %d was durable, says %d, %v; want %d", tt.seq, tt.durable, h.durable, ok, tt.want)
		}
	}
}

// Files are found by names of 16 hexadecimal digits, and no others.
func TestNumbersInNames(t *testing.T) {
	for name, want := range map[string]uint64{
		"000000000000002a.wal": 42, "ffffffffffffffff.wal": 1<<64 - 1,
		"2a.wal": 0, "0000000000000002a.wal": 0, "000000000000002a.snap": 0, "000000000000002a": 0,
		"000000000000002g.wal": 0, "-00000000000002a.wal": 0, "000000000000002a.wal.tmp": 0, ".wal": 0,
	} {
		if n, ok := parseNumber(name, segmentSuffix); n != want || ok != (want != 0) {
			t.Errorf("%q has number %d, %v; want %d", name, n, ok, want)
		}
	}
}

// A segment's metadata have their bound, however large its file is, and its magic is looked at.
func TestSegmentHeadersOfAnotherKind(t *testing.T) {
	head := func(n int) []byte { return segmentHeader{logID: 1, first: 1, meta: make([]byte, n)}.encode() }
	for n, good := range map[int]bool{0: true, metadataBytesMax: true, metadataBytesMax + 1: false} {
		h, size, err := parseSegmentHeader("file", append(head(n), make([]byte, 4096)...))
		if good && (err != nil || len(h.meta) != n || size != segmentHeaderBytes(n)) || !good && !errors.Is(err, ErrCorrupt) {
			t.Errorf("metadata of %d bytes: a header of %d bytes, %v", n, size, err)
		}
	}
	b := head(0)
	copy(b, "TENUREXX")
	le.PutUint32(b[len(b)-4:], wire.Checksum(b[:len(b)-4]))
	if _, _, err := parseSegmentHeader("file", b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a file that is something else: %v, want ErrCorrupt", err)
	}
}

// version1 makes a segment of version 1, with records of 100 bytes each.
func version1(id, first uint64, records int) []byte {
	head := make([]byte, segmentHeaderBytesOf(segmentFixedV1, 0))
	copy(head, segmentMagic)
	putVersion(head[8:], 1)
	le.PutUint64(head[16:], id)
	le.PutUint64(head[24:], first)
	end := len(head) - 4
	le.PutUint32(head[end:], wire.Checksum(head[:end]))
	c, seg := newCodec(id), head
	for i := range records {
		at, seq := len(seg), first+uint64(i)
		seg = c.append(seg, seq, seq-1, 7, make([]byte, 100))
		putSum24(seg[at+21:], 0)
		le.PutUint32(seg[at+4:], c.sum(seg[at:]))
	}
	return seg
}

// A log that an older program has left in many segments can be opened by its ends.
func TestOpenEndsOfManySegmentsOfVersion1(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	for first := uint64(1); first <= 7; first += 2 {
		if err := os.WriteFile(segmentPath(filepath.Join(dir, "wal"), first), version1(9, first, 2), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := OpenEnds(dir, Options{SegmentBytes: 4096}, func(Record) error { return nil })
	if err != nil {
		t.Fatalf("four segments of version 1 are not opened by their ends: %v", err)
	}
	defer l.Close()
	r := l.Reader(1)
	defer r.Close()
	for seq := uint64(1); seq <= 8; seq++ {
		if record, err := r.Next(); err != nil || record.Seq != seq || record.Kind != 7 || len(record.Payload) != 100 {
			t.Errorf("record %d of an older program: %d, %v", seq, record.Seq, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("behind the last record: %v, want io.EOF", err)
	}
}
