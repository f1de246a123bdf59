package wal

import (
	"bytes"
	"fmt"
)

// sectorBytes is what a disk writes as a whole or not at all.
const sectorBytes = 512

var zeroPage [4096]byte

// allZero reports whether b holds nothing but zeros.
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
		h, ok := c.parseHeader(seg[off:])
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
	for off := end + recordAlign; off+recordBytesMin <= len(seg); off += recordAlign {
		h, ok := c.parseHeader(seg[off:])
		// A record takes 32 bytes at least, which bounds how many fit between:
		// values that happen to look like a header seldom cost a checksum.
		if !ok || h.seq <= next || h.seq-next > uint64(off-end)/recordBytesMin || !c.whole(seg[off:], h) {
			continue
		}
		if h.durable >= next {
			return fmt.Sprintf("record %d is damaged: it was durable before record %d was written at offset %d", next, h.seq, off)
		}
		off += h.size - recordAlign
	}
	if lostSector(seg, end, end+recordBytesMin) || restIsZero(seg, end+recordHeaderBytes) {
		return ""
	}
	if allZero(seg[end : end+recordNumberEnd]) {
		return "" // no record is number 0: an earlier repair ended within this sector
	}
	h, ok := c.parseHeader(seg[end:])
	if !ok || h.seq != next {
		return fmt.Sprintf("record %d is damaged: its beginning was written, but is not that of a record", next)
	}
	if lostSector(seg, end, end+h.size) || restIsZero(seg, end+h.size-1) {
		return ""
	}
	return fmt.Sprintf("record %d is damaged: all of it was written, but its checksum is wrong", next)
}

// lostSector reports whether one of the sectors that [from, to) is in was not written since
// from was the end of the log: it holds zeros from there on, or is not in the file.
func lostSector(seg []byte, from, to int) bool {
	for at := from; at < to; at = at/sectorBytes*sectorBytes + sectorBytes {
		if at >= len(seg) || allZero(seg[at:min(at/sectorBytes*sectorBytes+sectorBytes, len(seg))]) {
			return true
		}
	}
	return to > len(seg)
}

// restIsZero reports whether a sector holds zeros from an offset on, which a record that was
// written has in none of its sectors but behind its end: a write was broken off before.
func restIsZero(seg []byte, at int) bool {
	return at < len(seg) && allZero(seg[at:min(at/sectorBytes*sectorBytes+sectorBytes, len(seg))])
}
