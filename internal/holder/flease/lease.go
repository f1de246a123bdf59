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

// claim is one claim, and the tenure.Lease of its holder once it is held. There may be a
// million in a process: none has a goroutine or a timer of its own. The machine's alarm
// ends all that are due, and Check reads the clocks.
type claim struct {
	holder.Lease
	leaser     *Leaser
	id         uint64
	ttl, delay time.Duration // delay is the lock delay

	mu    sync.Mutex
	seen  *tenure.State    // who is in the way
	freed chan struct{}    // closed when Released is known; made when somebody waits for it
	gone  *flease.Released // once it is
	moved chan struct{}    // nudged when it was renewed; made by who wants to know
}

var _ tenure.Lease = (*claim)(nil)

// watched returns a channel that is nudged with each renewal.
func (x *claim) watched() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved = make(chan struct{}, 1)
	return x.moved
}

// departed returns a channel that is closed when the machine has let go of the claim.
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
	enough := time.NewTimer(max(x.ttl, time.Second)) // it has ended by itself then
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
