// Package visibility keeps the states that were applied apart from those that are visible.
//
// In key order (package quorumlease) a replica.Applier is ahead of what is released. Its
// owner adds each state that it has applied, and is told by the replica what is released:
//
//	s.Begin(none, first, released)  // from a snapshot, or from nothing
//	s.Add(state, held)              // for each replica.Committed
//	s.Release(out)                  // for each replica.Released
//	s.Reveal()                      // then Shown is what anybody may see
//	s.Capture(results)              // what Applier.Take gives,
//	s.Answer(results, tell)         // and those of it that may be told
//
// In the order of the log, where nothing is held, that is the newest state.
//
// It is a pure data structure. One goroutine has it; the slice that Ahead returns is never
// written again.
package visibility

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// State is what was applied up to an index of the log.
type State interface{ Index() uint64 }

// States are the one that may be seen and those ahead of it. The zero States must Begin.
type States[S State] struct {
	through uint64          // everything up to here may be seen
	apart   map[uint64]bool // results and keys of these entries, too
	swept   uint64          // up to where apart has nothing any more
	ahead   []S             // by index
	kept    []replica.Result
	fresh   []uint64     // released apart, and not answered
	reads   map[uint64]S // for reads by the log, by their ID, until they are answered
}

// Begin goes on from the state that a snapshot holds, of which everything up to released
// may be seen. Until all of it may be, what is shown is what was, or none, if that was
// nothing.
func (s *States[S]) Begin(none, now S, released uint64) {
	s.through = max(s.through, released)
	before := none
	if len(s.ahead) > 0 {
		before = s.ahead[0]
	}
	s.ahead = []S{now}
	if now.Index() > s.through {
		s.ahead = []S{before, now}
	}
}

// Add takes a state; one that is not held may be seen, with all before.
func (s *States[S]) Add(now S, held bool) {
	s.ahead = append(s.ahead, now)
	if !held {
		s.through = max(s.through, now.Index())
	}
}

// Release learns what else may be seen.
func (s *States[S]) Release(out replica.Released) {
	s.through = max(s.through, out.Through)
	for _, i := range out.Apart {
		if s.apart == nil {
			s.apart = map[uint64]bool{}
		}
		s.apart[i] = true
	}
	s.fresh = append(s.fresh, out.Apart...)
}

// Reveal gives up the states before the newest that may be seen.
func (s *States[S]) Reveal() {
	n := 0
	for n+1 < len(s.ahead) && s.ahead[n+1].Index() <= s.through {
		n++
	}
	// Readers may have the slice: the part that they see is never written again.
	if s.ahead = s.ahead[n:]; n > len(s.ahead) { // lest it keep all that was ahead
		s.ahead = slices.Clone(s.ahead)
	}
	if s.through > s.swept {
		s.swept = s.through
		maps.DeleteFunc(s.apart, func(i uint64, _ bool) bool { return i <= s.through })
	}
}

// Through returns up to where everything is visible.
func (s *States[S]) Through() uint64 { return s.through }

// Shown returns the newest state that is visible, by the last Reveal.
func (s *States[S]) Shown() S { return s.ahead[0] }

// Ahead returns the newest released state, and the applied ones that are not released.
func (s *States[S]) Ahead() []S { return s.ahead }

// Capture keeps the state of the log's place for each read that has one. In strict
// order, where there is not a state for each entry, a later one is as good.
func (s *States[S]) Capture(results []replica.Result) {
	for _, r := range results {
		if r.Response != nil || r.Err != nil {
			continue
		}
		at, _ := search(s.ahead, r.Index)
		if s.reads == nil {
			s.reads = map[uint64]S{}
		}
		s.reads[r.ID] = s.ahead[at]
	}
}

// Answer tells the results whose entries are released, those that were kept first, with
// the state that Capture kept, and keeps the others.
func (s *States[S]) Answer(results []replica.Result, tell func(replica.Result, S)) {
	for _, r := range s.due(results) {
		read := s.reads[r.ID]
		delete(s.reads, r.ID)
		tell(r, read)
	}
}

// due looks at what became visible only: much may be held for long.
func (s *States[S]) due(results []replica.Result) (due []replica.Result) {
	if n := len(results); len(s.kept) == 0 && (n == 0 || results[n-1].Index <= s.through) {
		s.fresh = s.fresh[:0]
		return results
	}
	n := 0
	for n < len(s.kept) && s.kept[n].Index <= s.through {
		n++
	}
	due = append(due, s.kept[:n]...)
	s.kept = s.kept[n:]
	for _, i := range s.fresh {
		from, _ := slices.BinarySearchFunc(s.kept, i, func(r replica.Result, i uint64) int { return cmp.Compare(r.Index, i) })
		to := from
		for to < len(s.kept) && s.kept[to].Index == i {
			to++
		}
		due = append(due, s.kept[from:to]...)
		s.kept = slices.Delete(s.kept, from, to)
	}
	s.fresh = s.fresh[:0]
	for _, r := range results {
		if r.Index <= s.through || s.apart[r.Index] {
			due = append(due, r)
		} else {
			s.kept = append(s.kept, r)
		}
	}
	return due
}

// For returns the state of Ahead that answers a read of some keys, if there still is one: a
// snapshot may have taken its place.
func For[S State](ahead []S, ready replica.KeysReady) (st S, ok bool) {
	upTo := ready.UpTo
	if !ready.Exact {
		upTo = max(upTo, ahead[0].Index())
	}
	at, found := search(ahead, upTo)
	if !found {
		at--
	}
	if at < 0 || ahead[at].Index() < ready.Index {
		return st, false
	}
	return ahead[at], true
}

func search[S State](ahead []S, index uint64) (at int, found bool) {
	return slices.BinarySearchFunc(ahead, index, func(st S, i uint64) int { return cmp.Compare(st.Index(), i) })
}
