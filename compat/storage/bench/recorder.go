package main

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// recorder notes what is asked of stores, and when.
type recorder struct {
	mu      sync.Mutex
	stores  int
	batches int
	asked   []asked
}

// asked is an operation at one store.
type asked struct {
	store    int
	name     string
	put      machine.Version // zero: a Query
	from, to time.Time
}

// recorded is a store behind a recorder.
type recorded struct {
	register.Store
	number int
	rec    *recorder
}

func (r *recorder) wrap(s register.Store) register.Store {
	r.stores++
	return recorded{s, r.stores - 1, r}
}

func (s recorded) Do(ops []register.Op) []register.Reply {
	from := time.Now()
	replies := s.Store.Do(ops)
	to := time.Now()
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	s.rec.batches++
	for _, op := range ops {
		switch in := op.Op.(type) {
		case quorumregister.Query:
			s.rec.asked = append(s.rec.asked, asked{s.number, op.Name, machine.Version{}, from, to})
		case quorumregister.Put:
			s.rec.asked = append(s.rec.asked, asked{s.number, op.Name, in.Version, from, to})
		}
	}
	return replies
}

// reset forgets everything.
func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches, r.asked = 0, nil
}

// renewals counts the renewals that were written, and times those that were complete. Such
// a renewal is a Query, a Put and a Query at a store. It lasts from the first Query of all
// stores to the last Query of a majority.
func (r *recorder) renewals() (n int, took []time.Duration, batches int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	type place struct {
		name  string
		store int
	}
	type renewal struct {
		from time.Time
		ends []time.Time // by store
	}
	before := map[place]time.Time{}         // the last Query's beginning
	putting := map[place]*renewal{}         // the Put was done, the Query behind it not yet
	byPut := map[machine.Version]*renewal{} // versions are unique
	written := map[machine.Version]bool{}
	for _, a := range r.asked {
		if a.put != (machine.Version{}) {
			written[a.put] = true
		}
		p := place{a.name, a.store}
		switch {
		case a.put != machine.Version{}:
			from, ok := before[p]
			if !ok {
				continue // began before we listened
			}
			n := byPut[a.put]
			if n == nil {
				n = &renewal{from: from}
				byPut[a.put] = n
			}
			if from.Before(n.from) {
				n.from = from
			}
			putting[p] = n
		case putting[p] != nil:
			putting[p].ends = append(putting[p].ends, a.to)
			putting[p] = nil
			before[p] = a.from
		default:
			before[p] = a.from
		}
	}
	for _, n := range byPut {
		if m := r.stores/2 + 1; len(n.ends) >= m {
			slices.SortFunc(n.ends, func(a, b time.Time) int { return a.Compare(b) })
			took = append(took, n.ends[m-1].Sub(n.from))
		}
	}
	slices.Sort(took)
	return len(written), took, r.batches
}

// quantile of values that ascend.
func quantile[T cmp.Ordered](sorted []T, q float64) (v T) {
	if len(sorted) > 0 {
		v = sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
	}
	return v
}
