package wal

import (
	"crypto/subtle"
	"encoding/binary"
	"math"

	"github.com/tenure-lease/tenure/internal/wire"
)

// Record is one entry of the log.
type Record struct {
	Seq     uint64 // set by the log: 1 for its first record, then without a gap
	Kind    byte   // the caller's
	Payload []byte
}

const (
	recordHeaderBytes = 24
	recordNumberEnd   = 16                              // length, checksum and sequence number come before it
	recordBytesMin    = recordHeaderBytes + recordAlign // an empty payload
	recordAlign       = 8
	recordEnd         = 0xff
	// PayloadBytesMax is the size of the largest payload of a record.
	PayloadBytesMax = 1 << 30
)

var le = binary.LittleEndian

// codec encodes and decodes the records of one log.
type codec struct {
	seed uint32
	mask []byte // see the package comment; its length is a multiple of 8
	old  bool   // of a segment of version 1, where headers have no checksum of their own
}

// of is the codec for a segment of a version.
func (c codec) of(version uint32) codec {
	c.old = version == 1
	return c
}

func newCodec(logID uint64) codec {
	var id [8]byte
	le.PutUint64(id[:], logID)
	mask := make([]byte, 4096)
	for i := range mask {
		mask[i] = id[i%8] | 1 // no byte is zero, so zeros never stay zeros
	}
	return codec{seed: wire.Checksum(id[:]), mask: mask}
}

// xor masks or unmasks src into dst, which may be the same.
func (c codec) xor(dst, src []byte) {
	for len(src) > 0 {
		n := subtle.XORBytes(dst, src, c.mask)
		dst, src = dst[n:], src[n:]
	}
}

// recordBytes is the size on disk of a record with a payload of n bytes.
func recordBytes(n int) int {
	return (recordHeaderBytes+n)/recordAlign*recordAlign + recordAlign
}

// append adds a record to dst. durable is the newest sequence number known to be
// on disk.
func (c codec) append(dst []byte, seq, durable uint64, kind byte, payload []byte) []byte {
	start := len(dst)
	size := recordBytes(len(payload))
	dst = append(dst, make([]byte, size)...)
	b := dst[start:]
	le.PutUint32(b, uint32(len(payload)))
	le.PutUint64(b[8:], seq)
	le.PutUint32(b[16:], uint32(min(seq-durable, math.MaxUint32)))
	b[20] = kind
	putSum24(b[21:], c.headerSum(b))
	c.xor(b[recordHeaderBytes:], payload)
	for i := recordHeaderBytes + len(payload); i < size; i++ {
		b[i] = recordEnd
	}
	le.PutUint32(b[4:], c.sum(b))
	return dst
}

// sum is the checksum of a record as encoded, over all but the sum itself.
func (c codec) sum(b []byte) uint32 {
	crc := wire.Extend(c.seed, b[:4])
	return wire.Extend(crc, b[8:])
}

// headerSum is the checksum of a header as encoded, over all but the sums in it.
func (c codec) headerSum(b []byte) uint32 {
	crc := wire.Extend(c.seed, b[:4])
	return wire.Extend(crc, b[8:21]) & 0xffffff
}

func putSum24(b []byte, sum uint32) { b[0], b[1], b[2] = byte(sum), byte(sum>>8), byte(sum>>16) }

// header is what the first bytes of a record say.
type header struct {
	seq     uint64
	durable uint64 // newest record known to be on disk when this was written
	kind    byte
	length  int // of the payload
	size    int // of the record
}

// parseHeader reads a header; ok reports whether it is one. The record may well end
// beyond b.
func (c codec) parseHeader(b []byte) (h header, ok bool) {
	if len(b) < recordHeaderBytes {
		return header{}, false
	}
	length, lag := le.Uint32(b), uint64(le.Uint32(b[16:]))
	h = header{seq: le.Uint64(b[8:]), kind: b[20], length: int(length)}
	var want uint32 // the header's checksum
	if !c.old {
		want = c.headerSum(b)
	}
	sum := uint32(b[21]) | uint32(b[22])<<8 | uint32(b[23])<<16
	if length > PayloadBytesMax || lag == 0 || lag > h.seq || sum != want {
		return header{}, false
	}
	h.durable = h.seq - lag
	h.size = recordBytes(h.length)
	return h, true
}

// whole reports whether the record of header h at the start of b is intact.
func (c codec) whole(b []byte, h header) bool {
	return h.size <= len(b) && c.sum(b[:h.size]) == le.Uint32(b[4:])
}

// payload unmasks the payload in place; the record is not whole any more then.
func (c codec) payload(b []byte, h header) []byte {
	p := b[recordHeaderBytes : recordHeaderBytes+h.length : recordHeaderBytes+h.length]
	c.xor(p, p)
	return p
}
