package redis

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// sample is which notes a name had, to find out which no longer change.
type sample struct {
	at   time.Time
	seqs map[machine.ID]uint64
}

// age is for how long a note must not have changed before its writer counts as gone. A
// living writer changes its note within the term.
func (s *Store) age() time.Duration { return 100 * s.header.Quiet() }

// aged returns the writers whose notes have not changed for a long time, by our own clock. It looks
// at a name once in that time.
func (s *Store) aged(name string, seen shown) (old []machine.ID) {
	now := s.now()
	was, known := s.samples[name]
	if known && now.Sub(was.at) < s.age() {
		return nil
	}
	is := sample{now, make(map[machine.ID]uint64, len(seen.Notes))}
	for _, n := range seen.Notes {
		if seq, ok := was.seqs[n.Writer]; ok && seq == n.Seq {
			old = append(old, n.Writer)
		}
		is.seqs[n.Writer] = n.Seq
	}
	if len(is.seqs) == 0 {
		delete(s.samples, name)
	} else {
		s.samples[name] = is
	}
	return old
}

// dropSamples lets go of names that nobody asks for any more.
func (s *Store) dropSamples() {
	now := s.now()
	if now.Sub(s.dropped) < s.age() {
		return
	}
	s.dropped = now
	for name, x := range s.samples {
		if now.Sub(x.at) > 3*s.age() {
			delete(s.samples, name)
		}
	}
}

// forget returns the call that forgets the obsolete records of the writers, or nil. With data,
// their data too and not only their notes.
func (s *Store) forget(name string, seen shown, writers []machine.ID, data bool) *call {
	if s.options.Obsolete == nil {
		return nil
	}
	args := []any{s.seal, name, encodeVersion(seen.Version), 0}
	after, dropped := seen, map[machine.ID]bool{}
	for again := true; again; { // without the one's data the other's note may be obsolete
		again = false
		for _, w := range writers {
			own := after.Version.Writer == w && after.Version != (machine.Version{})
			if dropped[w] || own && !data || !s.options.Obsolete(after.value(), w) {
				continue
			}
			if own {
				args[3] = 1
			}
			args = append(args, w[:], seen.note(w))
			after.remove(w)
			dropped[w], again = true, true
		}
	}
	if len(dropped) == 0 {
		return nil
	}
	return &call{script: forgetScript, keys: s.options.keys(name), args: args}
}

// chore has the aged notes at the name, and those of writers that left, forgotten with the next
// operations. It costs no round trip of its own, and nothing waits for it.
func (s *Store) chore(name string, seen shown) {
	old := append(s.aged(name, seen), seen.left...)
	if len(old) == 0 {
		return
	}
	slices.SortFunc(old, machine.ID.Compare)
	if c := s.forget(name, seen, slices.Compact(old), false); c != nil {
		s.chores = append(s.chores, c)
	}
}
