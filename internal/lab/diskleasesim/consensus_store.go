package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// cell is a register for RankedOverNotes that is merely regular, and shows old and new in any
// mixture. A read shows, of each writer's notes and of the data, the latest that was complete
// when it began, or any begun since. The writes of a failed one may show up at any later time.
type cell struct {
	w           *sim.World
	stall, fail float64
	worst       time.Duration
	data        story
	notes       []*noted // by writer
}

// story is all that was ever written to one place.
type story struct {
	begun    []machine.Value
	complete int // how many of them are sure to be replaced by later ones, and one
}

type noted struct {
	writer machine.ID
	story
}

// pick returns the result of a read that began when so many were complete.
func (s *story) pick(w *sim.World, complete int) (v machine.Value) {
	for i := complete; i <= len(s.begun); i++ {
		if i > 0 && (i == complete || w.Chance(0.5)) {
			v = s.begun[i-1]
		}
	}
	return v
}

// begin adds a write and returns the function that ends it.
func (s *story) begin(v machine.Value) (end func()) {
	s.begun = append(s.begun, v)
	n := len(s.begun)
	return func() { s.complete = max(s.complete, n) }
}

func (s *story) has(v machine.Version) bool {
	return slices.ContainsFunc(s.begun, func(old machine.Value) bool { return old.Version == v })
}

// of returns the story of a writer's notes.
func (c *cell) of(writer machine.ID) *story {
	i, found := slices.BinarySearchFunc(c.notes, writer, func(n *noted, id machine.ID) int { return n.writer.Compare(id) })
	if !found {
		c.notes = slices.Insert(c.notes, i, &noted{writer: writer})
	}
	return &c.notes[i].story
}

func (c *cell) access(h *sim.Host, writer machine.ID, a machine.Access) {
	takes := c.w.Between(0, delta)
	if c.w.Chance(c.stall) {
		takes = c.w.Between(0, c.worst)
	}
	var err error
	if c.w.Chance(c.fail) {
		err = errStore
	}
	end := func() any { return nil }
	switch op := a.Op.(type) {
	case machine.Note:
		done := c.of(writer).begin(machine.Value{Data: op.Data})
		end = func() any { done(); return nil }
	case machine.Write:
		v := machine.Version{Seq: op.Seq, Writer: writer}
		if op.Seq == 0 {
			v.Seq = uint64(len(c.data.begun) + 1)
		}
		if c.data.has(v) { // as quorumregister has it: versions are unique
			err = errStore
			break
		}
		done := c.data.begin(machine.Value{Version: v, Data: op.Data})
		end = func() any { done(); return v }
	case machine.Read:
		end = c.read()
	}
	h.After(takes, func() {
		var reply any
		if err == nil {
			reply = end()
		}
		h.Accessed(machine.Accessed{ID: a.ID, Reply: reply, Err: err})
	})
}

// read begins a read; the function that it returns ends it.
func (c *cell) read() (end func() any) {
	data, notes := c.data.complete, map[machine.ID]int{}
	for _, n := range c.notes {
		notes[n.writer] = n.complete
	}
	return func() any {
		v := c.data.pick(c.w, data)
		v.Next = v.Version.Seq + 1
		for _, n := range c.notes {
			if shown := n.pick(c.w, notes[n.writer]); shown.Data != nil {
				v.Notes = append(v.Notes, machine.Noted{Writer: n.writer, Data: shown.Data})
			}
		}
		return v
	}
}

func (c *cell) trouble()                 { c.stall, c.fail = c.w.Swarm(0.3), c.w.Swarm(0.3) }
func (c *cell) strike()                  {}
func (c *cell) mend()                    { c.stall, c.fail = 0, 0 }
func (c *cell) worstCase() time.Duration { return 3 * c.worst }

// actives are bases that read and modify in one step, a minority of which may hang.
type actives struct {
	p           *parliament
	bases       []*active
	stall, fail float64
}

type active struct {
	state disklease.Ranked
	dead  bool
	hung  []func()
}

func newActives(p *parliament, n int) *actives {
	s := &actives{p: p}
	for range n {
		s.bases = append(s.bases, &active{})
	}
	return s
}

// access has a base perform an operation at some moment. One that fails is performed
// all the same, later or never; one at a base that hangs, when it works again.
func (s *actives) access(h *sim.Host, _ machine.ID, a machine.Access) {
	w, base := s.p.w, s.bases[a.At]
	takes := w.Between(0, delta)
	if w.Chance(s.stall) {
		takes = w.Between(0, 20*delta)
	}
	at := w.Between(0, takes)
	life := h.Life()
	answer := func(in time.Duration, reply any, err error) {
		if h.Life() == life {
			h.After(in, func() { h.Accessed(machine.Accessed{ID: a.ID, Reply: reply, Err: err}) })
		}
	}
	failed := w.Chance(s.fail)
	if failed {
		answer(takes, nil, errStore)
		if at += w.Between(0, 20*delta); w.Chance(0.3) {
			return
		}
	}
	perform := func() {
		reply := base.state.Do(a.Op)
		w.Note("%s at base %d: %v, %v", h.Lane, a.At, a.Op, reply)
		if v, ok := reply.(disklease.RRVerdict); ok && !v.Commit && v.Above.Compare(a.Op.(disklease.RRWrite).Rank) <= 0 {
			s.p.fail("Property 5: base %d refused %v because of %v", a.At, a.Op, v.Above)
		}
		if !failed {
			answer(takes-at, reply, nil)
		}
	}
	w.After(at, func() {
		if base.dead {
			base.hung = append(base.hung, perform)
			return
		}
		perform()
	})
}

func (s *actives) trouble() { s.stall, s.fail = s.p.w.Swarm(0.3), s.p.w.Swarm(0.3) }

// strike has one base hang, as long as it is a minority, or work again.
func (s *actives) strike() {
	dead := 0
	for _, b := range s.bases {
		if b.dead {
			dead++
		}
	}
	switch b := s.bases[s.p.w.Rand.IntN(len(s.bases))]; {
	case b.dead:
		b.dead = false
		hung := b.hung
		b.hung = nil
		for _, perform := range hung {
			perform()
		}
	case 2*(dead+1) < len(s.bases):
		b.dead = true
		s.p.w.Mark(sim.Fault, "", "a base hangs")
	}
}

func (s *actives) mend() { s.stall, s.fail = 0, 0 }

func (s *actives) worstCase() time.Duration { return 60 * delta }
