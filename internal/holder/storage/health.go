package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Health is how one of the stores does.
type Health struct {
	Store int           // its index in the set
	Took  time.Duration // the time of a look at a name; 0 if that failed
	Err   error         // why a look failed, or did not end
	// Stale: it went back to an older state, as seen by a claim of this Leaser, which
	// does not count it for a while.
	Stale bool
}

var errSilent = errors.New("it does not answer")

// Health looks at a name in each of the stores, and waits for the answers until ctx is
// done. A set works while more than half of its stores do.
func (l *Leaser) Health(outer context.Context, name string) ([]Health, error) {
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	var me machine.ID
	rand.Read(me[:]) // never fails
	ends := make(chan machine.Accessed, l.header.Of)
	access, leave := l.set.Serve(name, me, func(a machine.Accessed) { ends <- a })
	defer leave()

	all := make([]Health, l.header.Of)
	began := l.clock.Now()
	for i := range all {
		all[i] = Health{Store: i, Err: errSilent, Stale: l.troubles.stale(began, i)}
		access([]machine.Access{{ID: uint64(i), At: i, Op: quorumregister.Query{}}})
	}
	for range all {
		select {
		case a := <-ends:
			h := &all[a.ID]
			if h.Err = a.Err; a.Err == nil {
				h.Took = l.clock.Now().Sub(began)
			}
		case <-ctx.Done():
			if l.calls.CutShort(outer) {
				return nil, tenure.ErrClosed
			}
			return all, nil
		}
	}
	return all, nil
}

// troubles has the reports of claims about stores.
type troubles struct {
	quiet time.Duration // for how long one that went back does not count

	mu      sync.Mutex
	failing []error        // by store
	back    []machine.Mono // until when
}

func newTroubles(stores int, quiet time.Duration) *troubles {
	return &troubles{quiet: quiet, failing: make([]error, stores), back: make([]machine.Mono, stores)}
}

// note takes in an event of the stores.
func (t *troubles) note(now machine.Mono, event quorumregister.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch out := event.(type) {
	case quorumregister.Failing:
		t.failing[out.Base] = out.Err
	case quorumregister.Stale:
		t.back[out.Base] = now.Add(t.quiet)
	}
}

func (t *troubles) stale(now machine.Mono, store int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now < t.back[store]
}

// errors are those of stores that failed when they were asked last.
func (t *troubles) errors() (errs []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, err := range t.failing {
		if err != nil {
			errs = append(errs, fmt.Errorf("store %d: %w", i, err))
		}
	}
	return errs
}
