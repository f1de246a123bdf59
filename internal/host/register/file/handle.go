package file

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A handle's place is a header, a block for the farewell, the A copies of all its
// slots, and their B copies. It is whole before others can see it and never changes
// its size, so that a renewal of many leases is two writes.
const (
	leastSlots = 8
	mostSlots  = 8192
)

func placeSize(slots int) int         { return (2 + 2*slots) * block }
func copyAt(slots, c, slot int) int   { return (2 + c*slots + slot) * block }
func slotsOf(size int64) int          { return int(size/block-2) / 2 }
func handleName(id machine.ID) string { return id.String() }

// temporary marks a file that becomes a handle's file, or the store's header, once it is whole.
const temporary = ".new"

// parseHandle reports whether a file's name is a handle's.
func parseHandle(name string) (id machine.ID, ok bool) {
	p, err := hex.DecodeString(name)
	if err != nil || len(p) != len(id) || strings.ToLower(name) != name {
		return id, false
	}
	copy(id[:], p)
	return id, true
}

// handleHeader is the first block of a handle's place.
type handleHeader struct {
	id     machine.ID
	set    machine.ID // the store's
	slots  int
	holder string // for people
}

const maxHolder = 512

func (h *handleHeader) encode(b []byte) {
	clear(b[:block])
	f := fields{b: b[body:block]}
	f.put32(format)
	f.putBytes(h.id[:])
	f.putBytes(h.set[:])
	f.put32(uint32(h.slots))
	holder := h.holder[:min(len(h.holder), maxHolder)]
	f.put16(len(holder))
	f.putBytes([]byte(holder))
	seal(b, magicHandle)
}

func decodeHandle(b []byte) (h handleHeader, err error) {
	content, err := unseal(b, magicHandle)
	if err == errMagic {
		return h, fmt.Errorf("%w: %w", err, register.ErrDamaged)
	}
	if err != nil {
		return h, err
	}
	f := fields{b: content}
	if v := f.get32(); v != format {
		return h, fmt.Errorf("it has format %d, this program knows %d: %w", v, format, register.ErrNewer)
	}
	h.id, h.set = f.getID(), f.getID()
	h.slots = int(f.get32())
	n := f.get16()
	if n > maxHolder || h.slots < 1 || h.slots > mostSlots {
		return h, errForm
	}
	h.holder = string(f.take(n))
	return h, f.rest()
}

// encodeFarewell makes the block that says that the handle will not write again.
func encodeFarewell(b []byte, id machine.ID) {
	clear(b[:block])
	f := fields{b: b[body:block]}
	f.putBytes(id[:])
	seal(b, magicFarewell)
}

// saidFarewell takes any other block for none.
func saidFarewell(b []byte, id machine.ID) bool {
	content, err := unseal(b, magicFarewell)
	f := fields{b: content}
	return err == nil && f.getID() == [16]byte(id)
}
