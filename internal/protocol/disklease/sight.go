package disklease

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// sight is the result of one read, and the claim's judgement of it.
type sight struct {
	begun   machine.Mono // when the read was invoked
	version machine.Version
	next    uint64
	record  record
	notes   map[machine.ID]note // looked up, never walked
	queue   []wish              // others that wait, by place
	dead    map[stamp]bool      // entries whose time is over; looked up, never walked
	ended   map[stamp]bool      // the claim's: whose processes have ended
}

type stamp struct {
	id    machine.ID
	stamp uint64
}

func (e entry) key() stamp { return stamp{e.id, e.stamp} }

// wish is another claim that waits.
type wish struct {
	id     machine.ID
	ticket uint64
	slots  uint64
}

func (w wish) before(ticket uint64, id machine.ID) bool {
	return w.ticket < ticket || w.ticket == ticket && w.id.Compare(id) < 0
}

// released reports whether the entry's claim has given it back, or has ended. Only a stamp that was
// held is ever released: an entry that got into the register otherwise may hide a holder, and
// has to be waited out (see doc.go).
func (s *sight) released(e entry) bool {
	return s.notes[e.id].released == e.stamp || s.ended[e.key()] && e.lockDelay == 0
}

// confirmed reports whether the entry's claim has said that it holds. Until then no claim
// may share with it: its write may have got stuck and come in late, over a holder that
// excludes it (see doc.go).
func (s *sight) confirmed(e entry) bool { return s.notes[e.id].stamp == e.stamp }

// first is the claim that waits and goes before all others, if it goes before one with this ticket.
func (s *sight) first(ticket uint64, id machine.ID) machine.ID {
	first := wish{id: id, ticket: ticket}
	for _, w := range s.queue {
		if first.ticket == 0 || w.before(first.ticket, first.id) {
			first = w
		}
	}
	if first.id == id {
		return machine.ID{}
	}
	return first.id
}

// evidence is a value that a living claim has to change within Δ.
type evidence struct {
	value uint64
	since machine.Mono // the end of the read that showed it first
	last  machine.Mono // the end of the last read that showed it
	live  bool         // set but for the zero value
}

// witness remembers since when entries and wishes have not changed, as this claim's
// own clock tells.
type witness struct {
	entries map[stamp]evidence
	wishes  map[machine.ID]evidence
	waiting []machine.ID // the keys of wishes, in the order of the notes
}

// look judges a read that ended at now. wait gives for how long an entry must have been
// seen unchanged, before a read that is invoked then may call it dead.
func (w *witness) look(now machine.Mono, s *sight, v machine.Value, me machine.ID, wait func(record, entry) time.Duration, patience time.Duration) error {
	s.version, s.next = v.Version, v.Next
	s.notes, s.dead = map[machine.ID]note{}, map[stamp]bool{}
	wishes := map[machine.ID]evidence{}
	waiting := w.waiting
	w.waiting = nil
	for _, noted := range v.Notes {
		n, err := decodeNote(noted.Data)
		if err != nil {
			return err
		}
		s.notes[noted.Writer] = n
		if n.ticket == 0 || noted.Writer == me {
			continue
		}
		e := w.wishes[noted.Writer].observe(now, n.heartbeat)
		wishes[noted.Writer] = e
		w.waiting = append(w.waiting, noted.Writer)
		if s.begun.Sub(e.since) < patience && !s.ended[stamp{id: noted.Writer}] {
			s.queue = append(s.queue, wish{noted.Writer, n.ticket, n.slots})
		}
	}
	// A note that only some bases have still comes and goes with the majority that
	// answers. It is not news each time.
	for _, id := range waiting {
		if e := w.wishes[id]; !wishes[id].live && now.Sub(e.last) < 2*patience {
			wishes[id] = e
			w.waiting = append(w.waiting, id)
		}
	}
	entries := map[stamp]evidence{}
	for _, x := range s.record.entries {
		beat := uint64(0)
		if n := s.notes[x.id]; n.stamp == x.stamp {
			beat = n.beat
		}
		e := w.entries[x.key()].observe(now, beat)
		entries[x.key()] = e
		s.dead[x.key()] = s.begun.Sub(e.since) >= wait(s.record, x)
	}
	w.entries, w.wishes = entries, wishes
	return nil
}

// observe returns the evidence as of a read that ended at now and showed value.
func (e evidence) observe(now machine.Mono, value uint64) evidence {
	if !e.live || value > e.value { // a lesser one is an older one, from another majority
		e = evidence{value: value, since: now, live: true}
	}
	e.last = now
	return e
}

// stillness is since when the register as a whole has not changed: the paper's cur = prev.
type stillness struct {
	version machine.Version
	since   machine.Mono
	live    bool
}

func (s stillness) observe(now machine.Mono, v machine.Version) stillness {
	if !s.live || s.version != v {
		return stillness{v, now, true}
	}
	return s
}
