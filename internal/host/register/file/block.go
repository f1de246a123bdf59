package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/wire"
)

// block is the unit of all I/O: one record, written and read whole.
const block = 4096

// A block begins with 8 bytes that name its kind, and a CRC-32C over all other bytes.
const (
	magicStore    = "TenureS\x01"
	magicHandle   = "TenureH\x01"
	magicFarewell = "TenureF\x01"
	magicRecord   = "TenureR\x01"
	magicClaim    = "TenureC\x02"

	body = 12 // where the content begins
)

var (
	errMagic = errors.New("it does not begin like a block of this kind")
	errSum   = fmt.Errorf("its checksum is wrong: %w", register.ErrDamaged)
	errForm  = fmt.Errorf("its checksum is right, and its content is not valid: %w", register.ErrDamaged)
)

func checksum(b []byte) uint32 {
	return wire.Extend(wire.Checksum(b[:8]), b[body:block])
}

// seal completes a block whose content is in place.
func seal(b []byte, magic string) {
	copy(b, magic)
	binary.BigEndian.PutUint32(b[8:], checksum(b))
}

// unseal checks a block and returns its content.
func unseal(b []byte, magic string) ([]byte, error) {
	switch {
	case string(b[:8]) != magic:
		return nil, errMagic
	case binary.BigEndian.Uint32(b[8:]) != checksum(b):
		return nil, errSum
	}
	return b[body:block], nil
}

// aligned returns n zeroed bytes at an address that direct I/O takes.
func aligned(n int) []byte {
	b := make([]byte, n+block)
	off := int(-uintptr(unsafe.Pointer(&b[0])) & (block - 1))
	return b[off : off+n : off+n]
}

var zeros [block]byte

func allZero(b []byte) bool {
	for len(b) > block {
		if !bytes.Equal(b[:block], zeros[:]) {
			return false
		}
		b = b[block:]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// fields writes the numbers, identities and texts of a block, or reads them back.
type fields struct {
	b   []byte
	bad bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.b) {
		f.bad, f.b = true, nil
		return make([]byte, n)
	}
	p := f.b[:n:n]
	f.b = f.b[n:]
	return p
}

func (f *fields) put64(v uint64)    { binary.BigEndian.PutUint64(f.take(8), v) }
func (f *fields) put32(v uint32)    { binary.BigEndian.PutUint32(f.take(4), v) }
func (f *fields) put16(v int)       { binary.BigEndian.PutUint16(f.take(2), uint16(v)) }
func (f *fields) putBytes(p []byte) { copy(f.take(len(p)), p) }
func (f *fields) get64() uint64     { return binary.BigEndian.Uint64(f.take(8)) }
func (f *fields) get32() uint32     { return binary.BigEndian.Uint32(f.take(4)) }
func (f *fields) get16() int        { return int(binary.BigEndian.Uint16(f.take(2))) }
func (f *fields) getID() (id [16]byte) {
	copy(id[:], f.take(16))
	return id
}

// rest checks that nothing follows.
func (f *fields) rest() error {
	if f.bad || !allZero(f.b) {
		return errForm
	}
	return nil
}
