package file

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// fileKeeper keeps the own place in a file. In any doubt about that it moves everything to
// a new file. A write that got stuck on its way to the old file can then do no harm, and a
// damaged copy delays nobody.
type fileKeeper struct{ dir *directory }

// recover moves to a new file with room for all slots.
func (k fileKeeper) recover(s *Store) error {
	if err := k.check(s); err != nil {
		return err
	}
	slots := make([]*slot, 0, len(s.slots))
	for _, p := range s.slots {
		slots = append(slots, p)
	}
	slices.SortFunc(slots, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(uint(a.at), uint(b.at)), cmp.Compare(a.rec.name, b.rec.name), a.rec.writer.Compare(b.rec.writer))
	})
	n := leastSlots
	for n < len(slots) {
		n *= 2
	}
	if n > mostSlots {
		return fmt.Errorf("%s: one handle can write %d registers at most: use several", s.path, mostSlots)
	}
	h := &home{slots: n, id: s.nextID()}
	h.place = handleName(h.id)
	h.image = s.image(h, slots)
	if err := k.dir.root(); err != nil {
		return fmt.Errorf("make the names in %s durable: %w", s.path, advise(err))
	}
	var err error
	if h.f, h.ident, err = k.dir.add(h.id, h.image); err != nil {
		return fmt.Errorf("make a handle's file in %s: %w", k.dir.handles(), advise(err))
	}
	old := s.home
	s.home, s.lost, s.wrote = h, false, s.lookout.now()
	for i, p := range slots {
		p.at, p.fresh, p.dirty = i, false, false
		p.rec.gen++
	}
	for i := n - 1; i >= len(slots); i-- {
		h.free = append(h.free, i)
	}
	if old != nil {
		old.f.Close()
		k.dir.discard(old.place) // if it stays, it says nothing that the new one does not
	}
	return nil
}

// nextID names the next own file. Those of one handle ascend: of equal records the one in
// the latest is the greatest, so that nobody gives it up for the sake of an earlier file,
// which is about to go.
func (s *Store) nextID() machine.ID {
	var id machine.ID
	rand.Read(id[:])
	const at = len(id) / 2
	if s.lineage == (machine.ID{}) {
		clear(id[at : at+4])
	} else {
		copy(id[:at], s.lineage[:])
		binary.BigEndian.PutUint32(id[at:], binary.BigEndian.Uint32(s.lineage[at:])+1)
	}
	s.lineage = id
	return id
}

// check makes sure that the directory is still the store that was opened.
func (k fileKeeper) check(s *Store) error {
	h, err := readHeader(k.dir.sys, k.dir.header())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: the store is not there any more: mount it, or bring it back", s.path, register.ErrGone)
	case errors.Is(err, register.ErrDamaged) || errors.Is(err, register.ErrForeign):
		return fmt.Errorf("%s: %w: %w: restore it from a copy, see the store's documentation", k.dir.header(), register.ErrGone, err)
	case err != nil:
		return fmt.Errorf("%s: %w", k.dir.header(), err)
	case h != s.header:
		s.dead = fmt.Errorf("%s: another store has taken the place of this one: %w", s.path, register.ErrMismatch)
		return s.dead
	}
	return nil
}

// image makes the contents of a new place.
func (s *Store) image(h *home, slots []*slot) []byte {
	image := aligned(placeSize(h.slots))
	head := handleHeader{id: h.id, set: s.header.Set, slots: h.slots, holder: s.opts.Holder}
	head.encode(image)
	for i := range h.slots {
		r := record{handle: h.id, slot: i}
		if i < len(slots) {
			r = slots[i].rec
			r.handle, r.slot, r.floor = h.id, i, s.lookout.top
			r.gen++
		}
		for c := range 2 {
			at := copyAt(h.slots, c, i)
			r.encode(image[at : at+block])
		}
	}
	return image
}

func (fileKeeper) noteFailure(s *Store, _ []*slot, err error) { s.home.doubt = err }

func (k fileKeeper) checkOwner(h *home) error {
	st, err := k.dir.files.stat(k.dir.pathOf(h.place))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && st.ident == h.ident {
		return nil
	}
	if err == nil {
		return errTaken
	}
	names, err := k.dir.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if placeOf(name) == h.place {
			return errCondemned
		}
	}
	return errTaken
}

func (k fileKeeper) leave(s *Store, forget bool) {
	h := s.home
	if forget {
		k.dir.discard(h.place)
		return
	}
	b := aligned(block)
	encodeFarewell(b, h.id)
	h.f.WriteAt(b, block)
}

func (fileKeeper) close() {}

// missing explains an error of looking around.
func (s *Store) missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: the store is not there any more: mount it, or bring it back", s.path, register.ErrGone)
	}
	return fmt.Errorf("%s: %w", s.path, advise(err))
}
