package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// sight has the observations of one handle's place.
type sight struct {
	place    string
	name     string // the name in the list
	ident    [2]uint64
	raw      []byte
	since    machine.Mono // when raw was first seen as it is
	head     handleHeader
	headErr  error
	headSeen machine.Mono
	farewell bool
	shared   bool // an area: its header is for people only
	slots    []glimpse
}

// glimpse has the observations of a slot. While it is written one of its copies may be unreadable;
// each completed write is in both.
type glimpse struct {
	copies [2]*record // nil: unreadable
	since  machine.Mono
	floor  uint64 // once a loss is settled: the Seqs that the lost record may have used
}

// rereads is how often a place is read again at once when a slot of it was met in the
// middle of a write.
const rereads = 4

// read brings the sight up to date.
func (g *sight) read(f file, shared bool, buf *[]byte, now func() machine.Mono) error {
	st, err := f.stat()
	if err != nil {
		return err
	}
	if !st.plain || st.size > int64(placeSize(mostSlots)) {
		return fmt.Errorf("%s in %s is no handle's file: %w: remove it", g.place, handlesDir, register.ErrForeign)
	}
	if g.ident != st.ident {
		*g = sight{place: g.place, name: g.name, ident: st.ident}
	}
	size := max(int(st.size)/block*block, placeSize(1), len(g.raw))
	for range 1 + rereads {
		if len(*buf) < size {
			*buf = aligned(size)
		}
		raw := (*buf)[:size]
		n, err := f.ReadAt(raw, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read handle %s: %w", g.place, err)
		}
		clear(raw[n:]) // cut off: unreadable
		seen := now()
		g.take(raw, shared, seen)
		if want := placeSize(g.head.slots); g.headErr == nil && want > size {
			size = want
			continue
		}
		if !g.torn(seen) {
			break
		}
	}
	return nil
}

// take notes the contents that were read at a time.
func (g *sight) take(raw []byte, shared bool, now machine.Mono) {
	g.shared = shared
	first := len(g.raw) != len(raw)
	if first {
		g.raw, g.slots = make([]byte, len(raw)), make([]glimpse, slotsOf(int64(len(raw))))
	} else if bytes.Equal(g.raw, raw) {
		return
	}
	changed := func(at int) bool {
		return first || !bytes.Equal(g.raw[at:at+block], raw[at:at+block])
	}
	if changed(0) {
		g.head, g.headErr = decodeHandle(raw)
		if g.headErr == nil && !shared && handleName(g.head.id) != g.place {
			g.headErr = fmt.Errorf("it is that of handle %v: %w", g.head.id, register.ErrDamaged)
		}
		g.headSeen = now
	}
	g.farewell = g.headErr == nil && saidFarewell(raw[block:2*block], g.head.id)
	for i := range g.slots {
		s := &g.slots[i]
		for c := range s.copies {
			at := copyAt(len(g.slots), c, i)
			if !changed(at) {
				continue
			}
			r, err := decodeRecord(raw[at : at+block])
			if err != nil || r.slot != i || !shared && handleName(r.handle) != g.place {
				r = nil // a block that belongs elsewhere is as bad as an unreadable one
			}
			s.copies[c], s.since, s.floor = r, now, 0
		}
	}
	copy(g.raw, raw)
	g.since = now
}

// torn reports whether a slot that has just changed cannot be read.
func (g *sight) torn(now machine.Mono) bool {
	for i := range g.slots {
		if s := &g.slots[i]; s.since == now && s.unreadable() > 0 {
			return true
		}
	}
	return false
}

func (s *glimpse) unreadable() (n int) {
	for _, c := range s.copies {
		if c == nil {
			n++
		}
	}
	return n
}

// damage returns why a place cannot be trusted in a look that began at a time: wrong bytes that may
// still be a living handle's. It is that of some registers, or of all.
func (g *sight) damage(began machine.Mono, wait time.Duration) (names map[string]error, all error) {
	if g.headErr != nil && !g.shared && (began.Sub(g.headSeen) < wait || errors.Is(g.headErr, register.ErrNewer)) {
		return nil, fmt.Errorf("the header of handle %s: %w", g.place, g.headErr)
	}
	for i := range g.slots {
		s := &g.slots[i]
		bad := s.unreadable()
		if bad == 0 || began.Sub(s.since) >= wait {
			continue
		}
		if bad == 2 {
			return nil, g.damaged(i, "both copies are unreadable", wait)
		}
		for _, c := range s.copies {
			if c != nil && c.name != "" {
				if names == nil {
					names = map[string]error{}
				}
				names[c.name] = g.damaged(i, "one copy is unreadable", wait)
			}
		}
	}
	return names, nil
}

func (g *sight) damaged(slot int, what string, wait time.Duration) error {
	return fmt.Errorf("handle %s, slot %d: %s: %w: a living holder writes it anew; without one it counts as lost after %v", g.place, slot, what, register.ErrDamaged, wait)
}

// settle raises the floor for records that are lost for good, beyond any Seq that they may have
// used. Of a slot with a readable copy that can be one write, which nobody was told had succeeded.
// Of one without, it can be any number since another record took note.
func (g *sight) settle(began machine.Mono, wait time.Duration, top uint64) {
	for i := range g.slots {
		s := &g.slots[i]
		if s.floor != 0 || began.Sub(s.since) < wait {
			continue
		}
		switch s.unreadable() {
		case 1:
			s.floor = top + 1
		case 2:
			s.floor = top + lostWrites
		}
	}
}

// lostWrites is more than a store sees in the 13 years for which it is written ten times a second.
const lostWrites = 1 << 32

// top is the greatest Seq that the place knows of.
func (g *sight) top() (top uint64) {
	for i := range g.slots {
		s := &g.slots[i]
		top = max(top, s.floor)
		for _, c := range s.copies {
			if c != nil {
				top = max(top, c.top())
			}
		}
	}
	return top
}
