package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Options are what a Leaser needs beside its stores. The zero value will do.
type Options struct {
	// Clock measures leases, and what is told of stores. Default clock.System.
	Clock clock.Clock
	// State is a directory for what has to be remembered from process to process, see
	// the package comment; StateDir is where users expect it. It is made if it is
	// missing. If it is empty, or cannot be used, processes remember for themselves.
	State string
}

// Leaser is a tenure.Leaser over a set of stores. It is a tenure.Awaiter and a
// tenure.Lister as well.
type Leaser struct {
	set       *register.Set
	header    register.Header
	clock     clock.Clock
	witnesses *witnesses
	troubles  *troubles
	renewal   atomic.Int64 // what the last one took

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	halt   chan struct{} // closed when Close waits no more for anybody to leave
	close  sync.Once
	closed error // releases that were not confirmed

	mu     sync.Mutex
	claims map[*claim]struct{} // which have a machine
	calls  sync.WaitGroup      // under way
	minded sync.WaitGroup      // claims
}

var (
	_ tenure.Leaser  = (*Leaser)(nil)
	_ tenure.Awaiter = (*Leaser)(nil)
	_ tenure.Lister  = (*Leaser)(nil)
)

// New makes a Leaser over a set, which it takes over: Close closes the set as well.
func New(set *register.Set, o Options) *Leaser {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	l := &Leaser{
		set: set, header: set.Header(), clock: o.Clock,
		halt: make(chan struct{}), claims: map[*claim]struct{}{},
	}
	l.witnesses = newWitnesses(o.State, l.header.Set)
	l.troubles = newTroubles(l.header.Of, set.Config(machine.ID{}, true).Quiet)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Header returns what the stores agree on.
func (l *Leaser) Header() register.Header { return l.header }

// Takeover is how long after its last renewal the lease of a dead holder is another's,
// who waits for it: Δ + 6δ, with the margin for clocks, while accesses take no longer than the
// header's δ. A lock delay comes in addition.
func (l *Leaser) Takeover() time.Duration { return Takeover(l.header) }

// Takeover is that of leases in stores with the header.
func Takeover(h register.Header) time.Duration {
	d := h.Term + 6*h.Delay
	return d + time.Duration(float64(d)*float64(h.Drift)/1e6)
}

// Delay is the δ that was measured lately, at least that of the header.
func (l *Leaser) Delay() time.Duration { return l.set.Delays().Bound() }

// Renewal is what the latest renewal of a lease took; 0 if there was none.
func (l *Leaser) Renewal() time.Duration { return time.Duration(l.renewal.Load()) }

// Obsolete is for the options of stores: it tells what of leases one may forget.
func Obsolete(v machine.Value, writer machine.ID) bool { return disklease.Obsolete(v, writer) }

// Close implements tenure.Leaser. It waits for releases to be confirmed for some
// seconds at most, and a second for each store to let go.
func (l *Leaser) Close() error {
	l.close.Do(func() {
		l.mu.Lock() // no call begins any more
		l.cancel()
		l.mu.Unlock()
		l.calls.Wait()

		ctx, cancel := context.WithTimeout(context.Background(), max(2*time.Second, 8*l.header.Delay))
		defer cancel()
		var releases sync.WaitGroup
		l.mu.Lock()
		errs := make(chan error, len(l.claims))
		// In one order, so that a simulated world repeats.
		for _, x := range slices.SortedFunc(maps.Keys(l.claims), func(a, b *claim) int { return a.id.Compare(b.id) }) {
			// What was lost was lost before: its holder has been told.
			releases.Go(func() {
				if err := x.release(ctx); err != nil && !errors.Is(err, tenure.ErrLost) && x.stint != nil {
					errs <- fmt.Errorf("%q: %w", x.Name, err)
				}
			})
		}
		l.mu.Unlock()
		releases.Wait()
		close(l.halt)
		l.minded.Wait()
		for len(errs) > 0 {
			l.closed = errors.Join(l.closed, <-errs)
		}
		_ = l.set.Close() // a store that hangs is left behind, and nothing depends on it
	})
	return l.closed
}

// begin registers a call that Close waits for. The context it returns ends with ctx or
// with the Leaser, and must be ended with the function.
func (l *Leaser) begin(ctx context.Context) (context.Context, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, nil, tenure.ErrClosed
	}
	l.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(tenure.ErrClosed) })
	return ctx, func() { stop(); cancel(nil); l.calls.Done() }, nil
}

// cutShort reports whether Close has ended a call, and not its caller, whose context is outer.
func (l *Leaser) cutShort(outer context.Context) bool {
	return outer.Err() == nil && l.ctx.Err() != nil
}

// complete fills in a claim's defaults, or says which field to change.
func (l *Leaser) complete(c tenure.Claim) (tenure.Claim, error) {
	asked := c.TTL
	c, err := c.Complete()
	switch {
	case err != nil:
		return c, err
	case asked > l.header.Term:
		return c, fmt.Errorf("%w: a TTL of %v is more than these stores were made for, which is %v: ask for that or less, or make other stores (tenure lease init --ttl %v)",
			tenure.ErrClaim, asked, l.header.Term, asked)
	}
	return c, nil
}
