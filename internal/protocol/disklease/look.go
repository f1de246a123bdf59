package disklease

import (
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// Look reads a register for an observer that does not contend. It cannot tell a living
// holder from a dead one: only watching for longer than Δ can.
func Look(v machine.Value) (State, error) {
	rec, err := decodeRecord(v, 1)
	if err != nil {
		return State{}, err
	}
	s := sight{record: rec, notes: map[machine.ID]note{}}
	for _, noted := range v.Notes {
		n, err := decodeNote(noted.Data)
		if err != nil {
			return State{}, err
		}
		s.notes[noted.Writer] = n
		if n.ticket != 0 {
			s.queue = append(s.queue, wish{noted.Writer, n.ticket, n.slots})
		}
	}
	return s.state(), nil
}

// Saw is Look for an observer that looks again and again: it judges a read of the register
// that others made, from begun to ended, by a claim that has not begun and never will.
func (l *Lease) Saw(begun, ended machine.Mono, v machine.Value) (State, error) {
	l.begun = begun
	err := l.see(ended, v)
	return l.State(), err
}

// State describes the register as of the last read, with this claim's own knowledge.
func (l *Lease) State() State {
	st := l.sight.state()
	for i, e := range l.sight.record.entries {
		st.Members[i].Dead = l.sight.dead[e.key()]
		st.Members[i].Since = l.witness.entries[e.key()].since
	}
	st.Next = l.sight.first(l.note.ticket, l.cfg.ID)
	return st
}

// Witness is what this claim has seen, for the next one: see Config.
func (l *Lease) Witness() []byte {
	if l.sight.notes == nil { // nothing yet
		return l.cfg.Witness
	}
	return l.witness.encode(l.sight.record.entries)
}

func (s *sight) state() State {
	var st State
	for _, e := range s.record.entries {
		st.Members = append(st.Members, Member{
			ID: e.id, Holder: e.holder, Slots: int(min(e.slots, Shared)), Token: e.token,
			Stamp: e.stamp, LockDelay: e.lockDelay, Released: s.released(e),
		})
	}
	for _, w := range s.queue {
		if !s.lists(w.id) {
			st.Waiting++
		}
	}
	return st
}

// Obsolete reports whether a store may forget what the writer left at the register that
// shows v: nobody is, or may be, held off or let in by it. A writer that lives and is
// forgotten loses nothing but time.
//
// A record that has raised δ is never obsolete: a contender that finds no record takes the
// header's δ, and would race with those that have read this one (T-1).
func Obsolete(v machine.Value, writer machine.ID) bool {
	const initial = 1
	rec, err := decodeRecord(v, initial)
	if err != nil || rec.delay > initial && v.Version.Writer == writer {
		return false
	}
	st, err := Look(v)
	if err != nil {
		return false
	}
	for _, m := range st.Members {
		if !m.Released && (m.ID == writer || v.Version.Writer == writer) {
			return false
		}
		// The release stamp of an entry that the register still shows is needed for
		// as long as the record is.
		if m.Released && m.ID == writer && v.Version.Writer != writer {
			return false
		}
	}
	return true
}

// encode makes a Witness of what was seen.
func (w *witness) encode(entries []entry) []byte {
	out := wire.Writer{format}
	out.Count(len(entries))
	for _, e := range entries {
		out.Put(e.id[:])
		out.Uvarint(e.stamp)
		w.entries[e.key()].encode(&out)
	}
	out.Count(len(w.waiting))
	for _, id := range w.waiting {
		out.Put(id[:])
		w.wishes[id].encode(&out)
	}
	return out
}

func (e evidence) encode(w *wire.Writer) {
	w.Uvarint(e.value)
	w.Varint(int64(e.since))
}

// decodeWitness takes what makes no sense for no witness.
func decodeWitness(p []byte) witness {
	w := witness{entries: map[stamp]evidence{}, wishes: map[machine.ID]evidence{}}
	r, err := begin(p)
	if err != nil {
		return w
	}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		var k stamp
		copy(k.id[:], r.Take(16))
		k.stamp = r.Uvarint()
		w.entries[k] = r.evidence()
	}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		var id machine.ID
		copy(id[:], r.Take(16))
		w.wishes[id] = r.evidence()
	}
	if r.end() != nil {
		return witness{}
	}
	return w
}

func (r *reader) evidence() evidence {
	e := evidence{value: r.Uvarint(), live: true}
	e.since = machine.Mono(r.Varint())
	e.last = e.since
	return e
}
