package file

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// home is the place that this store writes, and nobody else.
type home struct {
	id    machine.ID
	place string
	ident [2]uint64
	f     file
	slots int
	image []byte // its contents, unless there is doubt
	free  []int  // slots that may be taken, the next one last
	// inherited are slots of an area with the records of earlier handles.
	inherited []*slot
	doubt     error // a write that failed: it may have happened, in part, or may yet
}

const nowhere = -1

// gen is the generation of a slot, which goes on when another writer gets it.
func (h *home) gen(slot int) uint64 {
	var gen uint64
	for c := range 2 {
		at := copyAt(h.slots, c, slot)
		if r, err := decodeRecord(h.image[at : at+block]); err == nil {
			gen = max(gen, r.gen)
		}
	}
	return gen
}

// slot is one writer's at one register.
type slot struct {
	rec   record // the record to write; gen is that of the last write tried, 0 if there was none
	at    int    // where in the home; nowhere if it has no place yet
	fresh bool   // its copies do not show yet whose it is
	dirty bool   // not known to be written as it is
	left  bool   // the writer will not come back
	idle  bool   // nobody needs its record
	since machine.Mono
}

// keeper has the operations on the own place in which directories and devices differ.
type keeper interface {
	// recover repairs the own place, with all its records.
	recover(s *Store) error
	// failed notes that a write of slots failed.
	noteFailure(s *Store, slots []*slot, err error)
	// ours reports whether others look for our records where we wrote them.
	checkOwner(h *home) error
	// check reports whether the store is still there at all.
	check(s *Store) error
	// leave gives the place up after the last write, altogether if forget says that nobody needs
	// its records.
	leave(s *Store, forget bool)
	close()
}

func (s *Store) recover() error { return s.keeper.recover(s) }

// keep writes slots to the own place.
func (s *Store) keep(dirty []*slot) error {
	if s.homeless() || !s.settle(dirty) {
		if err := s.recover(); err != nil {
			return err
		}
	}
	var left []*slot
	for _, p := range dirty {
		if p.dirty { // not written by recover
			left = append(left, p)
		}
	}
	if err := s.write(left); err != nil {
		return err
	}
	if err := s.keeper.checkOwner(s.home); err != nil {
		err = s.gone(err)
		if s.home != nil { // the check failed
			s.unsure(dirty, err)
			return err
		}
		if err := s.restore(err); err != nil {
			return err
		}
	}
	s.wrote = s.lookout.now()
	for _, p := range dirty {
		p.dirty = false
	}
	return nil
}

var (
	errTaken = errors.New("the file of this handle was taken away, and its records are written again")
	// errCondemned is no reproach: it was done by right, or pardoned soon.
	errCondemned = errors.New("the file of this handle was put aside after a long silence, and its records are written to a new one")
	errBack      = errors.New("the file of this handle went back to an older content, as from a backup, and its records are written again")
)

// unsure notes that it is unknown whether others still find the own place, with the latest write.
func (s *Store) unsure(written []*slot, err error) {
	s.home.doubt = err
	for _, p := range written {
		p.dirty = true
	}
}

// restore repairs the own place after a failure: we know its records, so nobody else has to wait.
// After that every operation fails with the error.
func (s *Store) restore(err error) error {
	again := s.recover()
	if errors.Is(err, register.ErrGone) || s.dead != nil {
		return err
	}
	return again
}

// homeless reports whether the records of the slots have no safe place.
func (s *Store) homeless() bool {
	return len(s.slots) > 0 && (s.home == nil || s.home.doubt != nil)
}

// settle gives each slot a place in the home, or none of them if there is not room for all: a slot
// that is refused may never be written, and would keep its place.
func (s *Store) settle(slots []*slot) bool {
	wanted := 0
	for _, p := range slots {
		if p.at == nowhere {
			wanted++
		}
	}
	if wanted > len(s.home.free) {
		return false
	}
	for _, p := range slots {
		if p.at != nowhere {
			continue
		}
		last := len(s.home.free) - 1
		p.at, p.fresh = s.home.free[last], true
		p.rec.gen = s.home.gen(p.at)
		s.home.free = s.home.free[:last]
	}
	return true
}

// write writes slots to both their copies, one after the other, so that one is always whole. A slot
// that had another's record first gets the new name on both copies. So the good copy of a damaged
// slot shows whose write it was.
func (s *Store) write(slots []*slot) error {
	slices.SortFunc(slots, func(a, b *slot) int { return cmp.Compare(a.at, b.at) })
	var fresh []*slot
	for _, p := range slots {
		if p.fresh {
			fresh = append(fresh, p)
		}
	}
	if err := s.writeCopies(fresh, true); err != nil {
		return err
	}
	var full []*slot
	for _, p := range slots {
		if !p.fresh || p.rec.wrote() || p.rec.noteSeq > 0 {
			full = append(full, p)
		}
		p.fresh = false
	}
	return s.writeCopies(full, false)
}

// writeCopies writes each run of neighbours at once.
func (s *Store) writeCopies(slots []*slot, bare bool) error {
	for _, p := range slots {
		p.rec.gen++
	}
	for c := range 2 {
		for rest := slots; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].at == rest[0].at+n {
				n++
			}
			if err := s.writeRun(rest[:n], c, bare); err != nil {
				s.keeper.noteFailure(s, slots, err)
				return fmt.Errorf("write to %s: %w", s.path, advise(err))
			}
			rest = rest[n:]
		}
	}
	return nil
}

func (s *Store) writeRun(run []*slot, c int, bare bool) error {
	h := s.home
	buf := aligned(len(run) * block)
	for i, p := range run {
		r := p.rec
		r.handle, r.slot, r.floor = h.id, p.at, s.lookout.top
		if bare {
			r.version, r.data, r.noteSeq, r.note = machine.Version{}, nil, 0, nil
		}
		r.encode(buf[i*block : (i+1)*block])
	}
	at := copyAt(h.slots, c, run[0].at)
	if _, err := h.f.WriteAt(buf, int64(at)); err != nil {
		return err
	}
	copy(h.image[at:], buf)
	return nil
}

// gone drops a place that others do not find, and keeps it if the host could not check. It may have
// been condemned or removed by right, if it has not changed for long. Otherwise another program
// meddles, and may have taken away more. Our records are written again, and nothing counts before
// all living processes have had the time to notice too.
func (s *Store) gone(err error) error {
	if err := s.keeper.check(s); err != nil {
		return err
	}
	if !errors.Is(err, register.ErrGone) && !errors.Is(err, errTaken) && !errors.Is(err, errCondemned) {
		return fmt.Errorf("look for this handle's place in %s: %w", s.path, advise(err))
	}
	s.drop()
	s.lost = true
	for _, p := range s.slots {
		p.at = nowhere
	}
	if errors.Is(err, register.ErrGone) || errors.Is(err, errCondemned) || s.lookout.now().Sub(s.wrote) > s.lookout.wait*9/10 {
		return err
	}
	return s.hush(err)
}

// hush has nothing count for a while.
func (s *Store) hush(err error) error {
	s.hushed = s.lookout.now().Add(s.lookout.wait)
	s.why = fmt.Errorf("%s: %w: %w: records of other handles may be lost too, so this store does not count for the next %v", s.path, register.ErrGone, err, s.lookout.wait)
	return s.why
}

// verify compares the own place at the latest look with the records that were written.
func (s *Store) verify() error {
	h := s.home
	if h == nil {
		return nil
	}
	if err := s.keeper.checkOwner(h); err != nil {
		return s.gone(err)
	}
	g := s.lookout.sights[h.place]
	if g == nil || g.ident != h.ident { // it came back after the look
		return s.gone(errTaken)
	}
	if h.doubt != nil || bytes.Equal(g.raw, h.image) {
		return nil
	}
	if len(g.raw) != len(h.image) {
		h.doubt = fmt.Errorf("handle %s has another size: %w", h.place, register.ErrDamaged)
		return h.doubt
	}
	var damage error
	for i := range g.slots {
		for c, r := range g.slots[i].copies {
			at := copyAt(h.slots, c, i)
			if bytes.Equal(g.raw[at:at+block], h.image[at:at+block]) {
				continue
			}
			if r == nil {
				damage = fmt.Errorf("handle %s, slot %d: %w", h.place, i, register.ErrDamaged)
				continue
			}
			if was, err := decodeRecord(h.image[at : at+block]); err == nil && r.gen < was.gen {
				h.doubt = errBack
				return s.hush(h.doubt)
			}
			s.dead = fmt.Errorf("%s: %w: another process writes as handle %s, as when a machine or its memory was copied: open the store anew", s.path, register.ErrGone, h.place)
			return s.dead
		}
	}
	if damage == nil {
		damage = fmt.Errorf("the header of handle %s: %w", h.place, register.ErrDamaged)
	}
	h.doubt = damage
	return damage
}
