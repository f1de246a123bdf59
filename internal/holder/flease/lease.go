package flease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// claim is one claim, and its holder's tenure.Lease once it is held. A process may have a million,
// so none has a goroutine or a timer of its own. The machine's alarm ends all that are due, and
// Check reads the clocks.
type claim struct {
	holder.Lease
	leaser     *Leaser
	id         uint64
	ttl, delay time.Duration // delay is the lock delay

	mu    sync.Mutex
	seen  *tenure.State    // the holders in the way
	freed chan struct{}    // closed once gone is set; made by the first caller that waits for it
	gone  *flease.Released // how the machine has dropped it; nil before
	moved chan struct{}    // nudged by renewals; made by watched

	records uint64 // that were to be set
}

var _ tenure.Lease = (*claim)(nil)

// watched returns a channel that is nudged with each renewal.
func (x *claim) watched() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved = make(chan struct{}, 1)
	return x.moved
}

// nextRecord returns the number of a record that is to be set.
func (x *claim) nextRecord() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.records++
	return x.records
}

// departed returns a channel that is closed when the machine has dropped the claim.
func (x *claim) departed() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.freed == nil {
		x.freed = make(chan struct{})
		if x.gone != nil {
			close(x.freed)
		}
	}
	return x.freed
}

// Release implements tenure.Lease.
func (x *claim) Release(ctx context.Context) error { return holder.Release(ctx, x) }

// GiveBack implements holder.Claim.
func (x *claim) GiveBack() { x.leaser.peer.driver.Step(flease.Release{ID: x.id}) }

// Abandon implements holder.Claim: a lost lease runs out by itself.
func (x *claim) Abandon(context.Context) {}

// AwaitFreed implements holder.Claim.
func (x *claim) AwaitFreed(ctx context.Context, _ time.Duration) error {
	p := x.leaser.peer
	enough := time.NewTimer(max(x.ttl, time.Second)) // the lease has run out then
	defer enough.Stop()
	why := errors.New("no majority answered")
	select {
	case <-x.departed():
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.gone.Confirmed {
			return nil
		}
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-enough.C:
	case <-p.ctx.Done():
		why = p.Err()
	}
	return holder.Unconfirmed(max(x.Left(), 0)+x.delay+p.cfg.Epsilon, fmt.Errorf("%w: %w", tenure.ErrUnavailable, why))
}
