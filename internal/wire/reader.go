package wire

import "encoding/binary"

// Reader takes fields off the front of Rest. Bad is set by the first that is missing.
type Reader struct {
	Rest []byte
	Bad  bool
}

// Uvarint takes what binary.AppendUvarint wrote.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Varint takes what binary.AppendVarint wrote.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.fail()
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

// Take gives the next n bytes. They alias Rest.
func (r *Reader) Take(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.fail()
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Bytes gives a byte string that stands behind its length. It aliases Rest.
func (r *Reader) Bytes() []byte { return r.Take(r.Uvarint()) }

// Count takes how many things follow, of which each has a byte or more: so a short
// message never asks for much memory.
func (r *Reader) Count() uint64 {
	n := r.Uvarint()
	if n > uint64(len(r.Rest)) {
		r.fail()
		return 0
	}
	return n
}

// Done reports whether nothing was missing and nothing is left.
func (r *Reader) Done() bool { return !r.Bad && len(r.Rest) == 0 }

func (r *Reader) fail() { r.Bad, r.Rest = true, nil }
