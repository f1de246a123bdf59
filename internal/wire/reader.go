package wire

import "encoding/binary"

// Reader takes fields off the front of Rest. Bad is set by the first that is missing.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Uvarint takes what Writer.Uvarint wrote.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// UvarintTo is Uvarint for a number that is most at most. A greater one is damage.
func (r *Reader) UvarintTo(most uint64) uint64 {
	v := r.Uvarint()
	if v > most {
		r.Fail()
		return 0
	}
	return v
}

// Varint takes what Writer.Varint wrote.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Byte takes one.
func (r *Reader) Byte() byte {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint32 takes four bytes, little endian.
func (r *Reader) Uint32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint64 takes eight bytes, little endian.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// Take gives the next n bytes. They alias Rest.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Fail()
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Bytes gives a byte string that stands behind its length. It aliases Rest.
func (r *Reader) Bytes() []byte { return r.Take(r.Uvarint()) }

// Text gives a string that stands behind its length, in memory of its own.
func (r *Reader) Text() string { return string(r.Bytes()) }

// Count takes how many things follow, of which each has a byte or more: so a short
// message never asks for much memory.
func (r *Reader) Count() uint64 {
	n := r.Uvarint()
	if n > uint64(len(r.Rest)) {
		r.Fail()
		return 0
	}
	return n
}

// Done reports whether nothing was missing and nothing is left.
func (r *Reader) Done() bool { return !r.Bad && len(r.Rest) == 0 }

// Fail says that something makes no sense: as if what comes next were missing.
func (r *Reader) Fail() { r.Bad, r.Rest = true, nil }
