package wire

import "encoding/binary"

// Writer is the bytes that were written so far. Its methods append one field each, in the form
// that the method of the same name takes off a [Reader]. Begin with a slice that has room, and
// nothing is allocated.
type Writer []byte

// Uvarint appends a number, the smaller the shorter. [Reader.UvarintTo] reads it, too.
func (w *Writer) Uvarint(v uint64) { *w = binary.AppendUvarint(*w, v) }

// Varint appends a signed number, the nearer to 0 the shorter.
func (w *Writer) Varint(v int64) { *w = binary.AppendVarint(*w, v) }

// Byte appends one.
func (w *Writer) Byte(b byte) { *w = append(*w, b) }

// Uint32 appends four bytes, little endian.
func (w *Writer) Uint32(v uint32) { *w = binary.LittleEndian.AppendUint32(*w, v) }

// Uint64 appends eight bytes, little endian.
func (w *Writer) Uint64(v uint64) { *w = binary.LittleEndian.AppendUint64(*w, v) }

// Put appends bytes alone: the reader has to know how many to Take.
func (w *Writer) Put(p []byte) { *w = append(*w, p...) }

// Bytes appends a byte string behind its length.
func (w *Writer) Bytes(p []byte) {
	w.Count(len(p))
	*w = append(*w, p...)
}

// Text appends a string behind its length.
func (w *Writer) Text(s string) {
	w.Count(len(s))
	*w = append(*w, s...)
}

// Count appends how many things follow, of which each has a byte or more.
func (w *Writer) Count(n int) { w.Uvarint(uint64(n)) }
