package file

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// census has the records of all places, by register.
type census struct {
	registers map[string]*entry
	obsolete  func(name string, v machine.Value, writer machine.ID) bool
	top       uint64
}

type entry struct {
	join
	traces []trace
}

type trace struct {
	at   spot
	rec  *record
	safe bool // it cannot vanish but for something greater that is safe
}

func (s *Store) census() *census {
	c := &census{registers: map[string]*entry{}, obsolete: s.opts.Obsolete, top: s.lookout.top}
	s.lookout.records(func(at spot, r *record) {
		e := c.registers[r.name]
		if e == nil {
			e = &entry{}
			c.registers[r.name] = e
		}
		e.add(r)
		e.traces = append(e.traces, trace{at, r, !s.lookout.condemned(at.place)})
	})
	return c
}

// forgettable reports whether nobody needs a record, given the records elsewhere: beyond the place
// if whole, else beyond the slot. The record with the greatest version of a register goes last, so
// that the register never shows a lesser one again. Of equal versions the order of spots decides,
// or two processes that tidy up would each rely on the other's record. The content of a condemned
// place is no evidence: it may be gone by now.
func (c *census) forgettable(at spot, r *record, whole bool) bool {
	if !r.wrote() && r.noteSeq == 0 {
		return true
	}
	e := c.registers[r.name]
	greater, other := false, false
	for _, o := range e.traces {
		if o.at.place == at.place && (whole || o.at.slot == at.slot) {
			continue
		}
		other = other || o.rec.wrote()
		d := o.rec.version.Compare(r.version)
		greater = greater || o.safe && (d > 0 || d == 0 && o.at.compare(at) > 0)
	}
	if greater && r.noteSeq == 0 {
		return true
	}
	if c.obsolete == nil || !c.obsolete(r.name, e.value(c.top), r.writer) {
		return false
	}
	return greater || !other || !r.wrote()
}

// value is the register's value.
func (e *entry) value(top uint64) machine.Value {
	s := e.done(top)
	v := machine.Value{Version: s.Version, Data: s.Data, Next: max(s.Version.Seq, top) + 1}
	for _, n := range s.Notes {
		v.Notes = append(v.Notes, machine.Noted{Writer: n.Writer, Data: n.Data})
	}
	return v
}

// mayForget reports whether nobody needs anything that is in a place.
func (s *Store) mayForget(c *census, g *sight) bool {
	top, kept := g.top(), false
	for _, place := range s.lookout.order {
		other := s.lookout.sights[place].top()
		kept = kept || !s.lookout.condemned(place) && (other > top || other == top && place > g.place)
	}
	if !kept && top > 0 {
		return false // the last witness of how far the tokens went
	}
	for i := range g.slots {
		for _, r := range g.slots[i].copies {
			if r != nil && r.name != "" && !c.forgettable(spot{g.place, i}, r, true) {
				return false
			}
		}
	}
	return true
}

// tidy frees own slots, and removes the files of handles that will not come back. It does so at
// most a few times in each wait, unless it has to or has begun to.
func (s *Store) tidy(now bool) {
	began := s.lookout.began
	now = now || slices.ContainsFunc(s.lookout.order, s.lookout.condemned)
	if s.opts.ReadOnly || !now && began.Sub(s.tidied) < s.lookout.wait/8 {
		return
	}
	s.tidied = began
	if damaged, err := s.lookout.damage(); err != nil || damaged != nil {
		return
	}
	c := s.census()
	s.freeSlots(c)
	if s.vol.shared() {
		return
	}
	for s.discardOne(c) {
		c = s.census() // a record that is left may be the last of its kind now
	}
	s.sweep()
}

// discardOne condemns the file of another handle, if one is useless and looks left behind.
// Or it removes one that was condemned before this look began, so that the look has met
// each write that its handle may acknowledge.
func (s *Store) discardOne(c *census) bool {
	for _, place := range s.lookout.order {
		g := s.lookout.sights[place]
		if s.home != nil && s.home.place == place || !s.due(g) || !s.mayForget(c, g) {
			continue
		}
		if condemned(g.name) {
			if s.vol.discard(g.name) == nil {
				s.lookout.forget(place)
				return true
			}
			continue
		}
		if name, err := s.vol.condemn(place); err == nil {
			g.name = name
			s.doomed[name] = true
			return true
		}
	}
	return false
}

// due reports whether the file of another handle may be condemned or removed now. It is asked before
// forgets, which looks at everything: after a loss of power there may be a thousand.
func (s *Store) due(g *sight) bool {
	if condemned(g.name) {
		return !s.doomed[g.name]
	}
	return g.farewell || s.lookout.began.Sub(g.since) >= s.lookout.wait
}

// pardon gives a condemned file that turns out to be needed its name back, so that no record that
// was seen there vanishes. It reports whether another look has to see that nothing has.
func (s *Store) pardon() (again bool, err error) {
	clear(s.doomed)
	var c *census
	for _, place := range s.lookout.order {
		g := s.lookout.sights[place]
		if !condemned(g.name) {
			continue
		}
		if c == nil {
			c = s.census()
		}
		if s.mayForget(c, g) {
			continue
		}
		if s.opts.ReadOnly {
			return false, fmt.Errorf("handle %s was put aside as dead and writes again: %w: a process with the right to write there has to put it back", place, register.ErrDamaged)
		}
		if err := s.vol.pardon(g.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, advise(err)
		}
		again = true
	}
	return again, nil
}

// freeSlots frees the slots whose writer left and which nobody has needed for a while. A reader
// that met them, in a look that lasts no longer than that, has met the records that outdo them.
func (s *Store) freeSlots(c *census) {
	if s.home == nil || s.home.doubt != nil || s.lookout.sights[s.home.place] == nil { // or given up just now
		return
	}
	for k, p := range s.slots {
		if p.left && !p.dirty && p.at != nowhere && s.spent(c, p) {
			delete(s.slots, k)
		}
	}
	s.home.inherited = slices.DeleteFunc(s.home.inherited, func(p *slot) bool { return s.spent(c, p) })
}

// spent frees a slot when its time has come.
func (s *Store) spent(c *census, p *slot) bool {
	switch {
	case !c.forgettable(spot{s.home.place, p.at}, &p.rec, false):
		p.idle = false
	case !p.idle:
		p.idle, p.since = true, s.lookout.now()
	case s.lookout.began.Sub(p.since) >= s.lookout.wait:
		s.home.free = append(s.home.free, p.at)
		return true
	}
	return false
}

// sweep removes the half-made files of crashed handles.
func (s *Store) sweep() {
	names, err := s.vol.litter()
	if err != nil {
		return
	}
	seen := map[string]machine.Mono{}
	for _, name := range names {
		since, ok := s.rubbish[name]
		if !ok {
			since = s.lookout.now()
		}
		if s.lookout.began.Sub(since) >= s.lookout.wait {
			s.vol.discard(name)
			continue
		}
		seen[name] = since
	}
	s.rubbish = seen
}

// leavePlace ends the use of the own place.
func (s *Store) leavePlace() {
	if s.home.doubt != nil {
		return
	}
	forget := s.mayForget(s.census(), s.lookout.sights[s.home.place])
	s.keeper.leave(s, forget)
	if forget && !s.vol.shared() {
		s.lookout.forget(s.home.place)
	}
}
