package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Options are a Leaser's needs beside its stores. The zero value will do.
type Options struct {
	// Clock measures leases, and the times of stores. Default clock.System.
	Clock clock.Clock
	// State is a directory for observations that later processes can use: see the package comment.
	// Users expect it at StateDir. It is made if it is missing. If it is empty, or cannot be used,
	// processes remember for themselves.
	State string
	// Lifelines tell which holders on this machine have ended. Nil: none is known to.
	Lifelines Lifelines
}

// Leaser is a tenure.Leaser over a set of stores. It is a tenure.Awaiter, a
// tenure.Lister and a tenure.Recorder as well.
type Leaser struct {
	set       *register.Set
	header    register.Header
	clock     clock.Clock
	clocks    holder.Clocks
	witnesses *witnesses
	troubles  *troubles
	lifelines Lifelines
	tied      chan struct{} // holds a token for each claim that is tied
	renewal   atomic.Int64  // the time of the last one

	calls  *holder.Calls
	halt   chan struct{} // closed when Close waits no more for anybody to leave
	close  sync.Once
	closed error // releases that were not confirmed

	mu     sync.Mutex
	claims map[*claim]struct{} // which have a machine
	minded sync.WaitGroup      // claims
}

var (
	_ tenure.Leaser   = (*Leaser)(nil)
	_ tenure.Awaiter  = (*Leaser)(nil)
	_ tenure.Lister   = (*Leaser)(nil)
	_ tenure.Recorder = (*Leaser)(nil)
)

// New makes a Leaser over a set, which it takes over: Close closes the set as well.
func New(set *register.Set, o Options) *Leaser {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	l := &Leaser{
		set: set, header: set.Header(), clock: o.Clock, clocks: holder.Clocks{Mono: o.Clock},
		calls:     holder.NewCalls(context.Background(), nil),
		lifelines: o.Lifelines, tied: make(chan struct{}, mostTied),
		halt: make(chan struct{}), claims: map[*claim]struct{}{},
	}
	l.witnesses = newWitnesses(o.State, l.header.Set)
	l.troubles = newTroubles(l.header.Of, set.Config(machine.ID{}, true).Quiet)
	return l
}

// Header returns the header that the stores share.
func (l *Leaser) Header() register.Header { return l.header }

// Takeover is how long after its last renewal the lease of a dead holder goes to a claim that
// waits: Δ + 6δ, with the margin for clocks. It holds while accesses take no longer than the
// header's δ. A lock delay comes in addition.
func (l *Leaser) Takeover() time.Duration { return Takeover(l.header) }

// Takeover is that of leases in stores with the header.
func Takeover(h register.Header) time.Duration {
	d := h.Term + 6*h.Delay
	return d + time.Duration(float64(d)*float64(h.Drift)/1e6)
}

// Delay is the δ that was measured lately, at least that of the header.
func (l *Leaser) Delay() time.Duration { return l.set.Delays().Bound() }

// Renewal is the time that the latest renewal of a lease took; 0 if there was none.
func (l *Leaser) Renewal() time.Duration { return time.Duration(l.renewal.Load()) }

// Close implements tenure.Leaser. It waits for releases to be confirmed for some
// seconds at most, and a second for each store to let go.
func (l *Leaser) Close() error {
	l.close.Do(func() {
		l.calls.Close()
		// In one order, so that a simulated world repeats.
		l.mu.Lock()
		all := slices.SortedFunc(maps.Keys(l.claims), func(a, b *claim) int { return a.id.Compare(b.id) })
		l.mu.Unlock()
		l.closed = holder.ReleaseAll(all, max(2*time.Second, 8*l.header.Delay), false)
		close(l.halt)
		l.minded.Wait()
		_ = l.set.Close() // a store that hangs is left behind, and nothing depends on it
	})
	return l.closed
}

// Complete implements holder.Engine.
func (e engine) Complete(c tenure.Claim) (tenure.Claim, error) {
	asked := c.TTL
	c, err := c.Complete()
	switch {
	case err != nil:
		return c, err
	case asked != 0 && asked != e.header.Term:
		return c, fmt.Errorf("%w: a TTL of %v is not what these stores were made for: all their leases last %v, so that others know when one is over; leave the TTL out, or make stores elsewhere (tenure lease init --ttl %v)",
			tenure.ErrClaim, asked, e.header.Term, asked)
	}
	c.TTL = e.header.Term
	return c, nil
}
