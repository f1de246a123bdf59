package quorumregister

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// base is this process's memory of a base.
type base struct {
	busy  uint64 // the access that has not ended; 0 if none
	asked any    // its operation
	round uint64 // for which round it was asked

	answered uint64 // the last round that it answered
	err      error  // of its last access
	failed   uint64 // the last round in which it failed and has not succeeded since
	retry    machine.Mono

	// held is the version that it showed or acknowledged last, and therefore holds unless
	// it is stale.
	held  machine.Version
	shown bool   // held was shown, not only acknowledged
	floor uint64 // greatest Seq of all
	notes []Note // by writer
	note  uint64 // Seq of this process's own

	stale bool
	back  machine.Mono // when it was seen to be stale
}

// lost reports whether a state lacks what the base held before. A base may forget a
// register that nobody needs, data and notes at once, if its floor stays. It must not
// forget a value that this writer wrote and the base has shown. A value that it has only
// acknowledged may have lost to another one of the same Seq that was then forgotten.
func (b *base) lost(s State, me machine.ID) bool {
	if max(s.Floor, s.Version.Seq) < b.floor {
		return true
	}
	if s.Version.Compare(b.held) < 0 && (s.Version != machine.Version{} || b.mine(me)) {
		return true
	}
	var own uint64
	before := b.notes
	for _, n := range s.Notes {
		if n.Writer == me {
			own = n.Seq
		}
		for len(before) > 0 && before[0].Writer.Compare(n.Writer) < 0 {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Writer == n.Writer && n.Seq < before[0].Seq {
			return true
		}
	}
	return own < b.note
}

// mine reports whether the base has shown what this writer wrote.
func (b *base) mine(me machine.ID) bool { return b.shown && b.held.Writer == me }

// showed takes in the answer to a Query, its notes in order. It reports whether the
// base has gone back since it was asked before.
func (b *base) showed(s State, me machine.ID) (lost bool) {
	if lost = b.lost(s, me); lost {
		b.floor, b.note = 0, 0
	}
	b.held, b.shown, b.notes = s.Version, true, s.Notes
	b.floor = max(b.floor, s.Floor, s.Version.Seq)
	for _, n := range s.Notes {
		if n.Writer == me {
			b.note = n.Seq
		}
	}
	return lost
}

// noteHeld takes in that the base has acknowledged a version.
func (b *base) noteHeld(v machine.Version) {
	if b.held.Compare(v) < 0 {
		b.held, b.shown = v, false
	}
	b.floor = max(b.floor, v.Seq)
}

func sortNotes(notes []Note) []Note {
	byWriter := func(a, b Note) int { return a.Writer.Compare(b.Writer) }
	if !slices.IsSortedFunc(notes, byWriter) {
		notes = slices.Clone(notes)
		slices.SortFunc(notes, byWriter)
	}
	return notes
}

// merge joins two states: the greater version, and of each writer the newer note. Notes of both
// are in order. Floors are taken in with each answer.
func merge(a, b State) State {
	if a.Version.Compare(b.Version) < 0 {
		a.Version, a.Data = b.Version, b.Data
	}
	if len(a.Notes) == 0 {
		a.Notes = b.Notes
		return a
	}
	notes := make([]Note, 0, max(len(a.Notes), len(b.Notes)))
	x, y := a.Notes, b.Notes
	for len(x) > 0 && len(y) > 0 {
		switch c := x[0].Writer.Compare(y[0].Writer); {
		case c < 0:
			notes, x = append(notes, x[0]), x[1:]
		case c > 0:
			notes, y = append(notes, y[0]), y[1:]
		default:
			newer := x[0]
			if y[0].Seq > newer.Seq {
				newer = y[0]
			}
			notes, x, y = append(notes, newer), x[1:], y[1:]
		}
	}
	a.Notes = append(append(notes, x...), y...)
	return a
}
