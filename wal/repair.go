package wal

import (
	"bytes"
	"fmt"
)

// sectorBytes is what a disk writes as a whole or not at all.
const sectorBytes = 512

var zeroPage [4096]byte

// allZero tells whether b holds nothing but zeros.
func allZero(b []byte) bool {
	for len(b) > len(zeroPage) {
		if !bytes.Equal(b[:len(zeroPage)], zeroPage[:]) {
			return false
		}
		b = b[len(zeroPage):]
	}
	return bytes.Equal(b, zeroPage[:len(b)])
}

// scan walks the records of a segment from offset off, where the record with
// sequence number next is expected, and calls yield for each whole one. It
// returns where it stopped: the offset and the sequence number there. yield may
// change the bytes of its record.
func (c codec) scan(seg []byte, off int, next uint64, yield func(off int, h header) error) (int, uint64, error) {
	for {
		h, ok := parseHeader(seg[off:])
		if !ok || h.seq != next || !c.whole(seg[off:], h) {
			return off, next, nil
		}
		if err := yield(off, h); err != nil {
			return off, next, err
		}
		off += h.size
		next++
	}
}

// judge tells why the bytes at end, where the whole records of the last segment
// stop and record next should be, are damage; "" if they are a torn write. The
// rules are those of the package comment.
func (c codec) judge(seg []byte, end int, next uint64) (damage string) {
	later := -1 // offset of the first whole record behind the bad one
	for off := end + recordAlign; off+recordBytesMin <= len(seg); off += recordAlign {
		h, ok := parseHeader(seg[off:])
		// A record takes 32 bytes at least, which bounds how many fit between:
		// values that happen to look like a header seldom cost a checksum.
		if !ok || h.seq <= next || h.seq-next > uint64(off-end)/recordBytesMin || !c.whole(seg[off:], h) {
			continue
		}
		if h.durable >= next {
			return fmt.Sprintf("record %d is damaged: it was durable before record %d was written at offset %d", next, h.seq, off)
		}
		if later < 0 {
			later = off
		}
		off += h.size - recordAlign
	}
	stop := later
	if later < 0 {
		h, ok := parseHeader(seg[end:])
		if !ok || h.seq != next || end+h.size > len(seg) {
			return ""
		}
		stop = end + h.size
	}
	if seg[stop-1] == 0 || hasZeroSector(seg, end, stop) {
		return ""
	}
	return fmt.Sprintf("record %d is damaged: all of it was written, but its checksum is wrong", next)
}

// hasZeroSector tells whether [from, to) holds a sector, or the part of one,
// that was never written.
func hasZeroSector(seg []byte, from, to int) bool {
	for from < to {
		stop := min(from/sectorBytes*sectorBytes+sectorBytes, to)
		if allZero(seg[from:stop]) {
			return true
		}
		from = stop
	}
	return false
}
