package file

import (
	"errors"
	"iter"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Handle is the view that Dump gives of a handle's place.
type Handle struct {
	Place   string     // the name of its file, or of its area
	ID      machine.ID // zero if the header is damaged
	Holder  string     // the name that its opener gave it
	Left    bool       // it was closed
	Slots   int
	Damage  error // of its header
	Records []Record
}

// Record is a slot that is in use, or damaged.
type Record struct {
	Slot       int
	Generation uint64 // how often it was written
	Name       string
	Writer     machine.ID
	Version    machine.Version // zero: no data
	Data       []byte
	NoteSeq    uint64 // 0: no note
	Note       []byte
	Floor      uint64
	Damage     error // of a copy, or of both; then all else is the other's, or nothing
}

var (
	errOneCopy    = errors.New("one copy is unreadable")
	errBothCopies = errors.New("both copies are unreadable")
)

// Dump shows everything as it is, for people. It may run beside Do.
func (s *Store) Dump() iter.Seq2[Handle, error] {
	return func(yield func(Handle, error) bool) {
		l := s.newLookout()
		if err := l.look(); err != nil {
			yield(Handle{}, s.missing(err))
			return
		}
		for _, place := range l.order {
			if !yield(l.sights[place].handle(), nil) {
				return
			}
		}
	}
}

func (g *sight) handle() Handle {
	h := Handle{Place: g.place, ID: g.head.id, Holder: g.head.holder, Left: g.farewell, Slots: len(g.slots), Damage: g.headErr}
	for i := range g.slots {
		if r, ok := g.slots[i].record(i); ok {
			h.Records = append(h.Records, r)
		}
	}
	return h
}

// newer returns the newer copy, and the damage of the other copy or of both.
func (s *glimpse) newer() (newer *record, err error) {
	for _, c := range s.copies {
		if c != nil && (newer == nil || c.gen > newer.gen) {
			newer = c
		}
	}
	switch s.unreadable() {
	case 1:
		err = errOneCopy
	case 2:
		err = errBothCopies
	}
	return newer, err
}

func (s *glimpse) record(slot int) (Record, bool) {
	r, err := s.newer()
	if r == nil {
		return Record{Slot: slot, Damage: err}, true
	}
	return Record{
		Slot: slot, Generation: r.gen, Name: r.name, Writer: r.writer, Version: r.version, Data: r.data,
		NoteSeq: r.noteSeq, Note: r.note, Floor: r.floor, Damage: err,
	}, err != nil || r.name != ""
}
