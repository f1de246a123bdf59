package file

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// format is the version of all that this package writes. A store keeps that of its
// header for life.
const format = 1

// storeHeader is the content of DIR/TENURE, or of a device's first block.
type storeHeader struct {
	register.Header
	single bool
	areas  int // of a device; 0 in a directory
	slots  int // of an area
}

func (h *storeHeader) encode(b []byte) {
	clear(b[:block])
	f := fields{b: b[body:block]}
	f.put32(format)
	f.put32(flag(h.single))
	f.putBytes(h.Set[:])
	f.put32(uint32(h.Of))
	f.put32(uint32(h.Index))
	f.put64(uint64(h.Term))
	f.put64(uint64(h.Delay))
	f.put32(uint32(h.Drift))
	f.put32(uint32(h.areas))
	f.put32(uint32(h.slots))
	seal(b, magicStore)
}

func decodeHeader(b []byte) (h storeHeader, err error) {
	content, err := unseal(b, magicStore)
	switch err {
	case nil:
	case errMagic:
		return h, register.ErrForeign
	default:
		return h, err
	}
	f := fields{b: content}
	if v := f.get32(); v != format {
		return h, fmt.Errorf("it has format %d, this program knows %d: %w", v, format, register.ErrNewer)
	}
	h.single = f.get32() != 0
	h.Set = f.getID()
	h.Of, h.Index = int(f.get32()), int(f.get32())
	h.Term, h.Delay = time.Duration(f.get64()), time.Duration(f.get64())
	h.Drift, h.areas, h.slots = int(f.get32()), int(f.get32()), int(f.get32())
	if err := f.rest(); err != nil {
		return h, err
	}
	return h, h.check()
}

func (h *storeHeader) check() error {
	if err := h.Check(); err != nil {
		return err
	}
	switch {
	case h.areas < 0 || h.areas > maxAreas:
		return fmt.Errorf("a device can have 1 to %d handles, not %d", maxAreas, h.areas)
	case h.slots < 0 || h.slots > mostSlots:
		return fmt.Errorf("a handle can have at most %d slots, not %d", mostSlots, h.slots)
	}
	return nil
}

const (
	maxAreas = 1024
)

// wait is for how long bytes have to stay as they are before their writer counts as
// dead: all that a holder may lawfully be late, and a tenth for the clocks.
func (h *storeHeader) wait() time.Duration { return h.Quiet() }

func flag(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}
