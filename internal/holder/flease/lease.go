package flease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// claim is one claim, and the tenure.Lease of its holder once it is held. There may be a
// million in a process: none has a goroutine or a timer of its own. The machine's alarm
// ends all that are due, and Check reads the clock.
type claim struct {
	leaser       *Leaser
	id           uint64
	name, holder string
	ttl, delay   time.Duration // delay is the lock delay
	token        uint64        // once held

	deadline atomic.Int64 // machine.Mono
	until    atomic.Int64 // machine.Wall

	mu     sync.Mutex
	answer chan error       // verdict of Acquire; nil once it was given
	seen   *tenure.State    // who is in the way
	held   bool             // admitted, perhaps over by now
	err    error            // why it is over
	done   chan struct{}    // made when somebody asks for it
	freed  chan struct{}    // closed when Released is known; made by Release
	gone   *flease.Released // once it is
	moved  chan struct{}    // nudged when it was renewed; made by who wants to know
}

var _ tenure.Lease = (*claim)(nil)

// errHeld tells a claim that was admitted while its caller gave up.
var errHeld = errors.New("admitted")

// Name implements tenure.Lease.
func (x *claim) Name() string { return x.name }

// Holder implements tenure.Lease.
func (x *claim) Holder() string { return x.holder }

// Token implements tenure.Lease: it is the ballot of the tenure's first write.
func (x *claim) Token() uint64 { return x.token }

// Deadline implements tenure.Lease. It is the earlier one by the monotonic and by the
// synchronized clock.
func (x *claim) Deadline() time.Time { return time.Now().Add(x.remaining()) }

// remaining is the time until the end; not above 0 after it.
func (x *claim) remaining() time.Duration {
	return x.left(x.leaser.peer.cfg.glance())
}

func (x *claim) left(now machine.Now) time.Duration {
	return min(machine.Mono(x.deadline.Load()).Sub(now.Mono), time.Duration(x.until.Load()-int64(now.Wall)))
}

// Done implements tenure.Lease.
func (x *claim) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done == nil {
		x.done = make(chan struct{})
		if x.err != nil {
			close(x.done)
		}
	}
	return x.done
}

// Err implements tenure.Lease.
func (x *claim) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Check implements tenure.Lease. It looks at both clocks.
func (x *claim) Check() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil && x.remaining() <= 0 {
		x.end(errDeadline)
	}
	return x.err
}

var errDeadline = fmt.Errorf("%w: its deadline passed without a renewal", tenure.ErrLost)

// end ends the tenure, once. x.mu is held.
func (x *claim) end(err error) {
	if x.err != nil {
		return
	}
	x.err = err
	if x.done != nil {
		close(x.done)
	}
}

// watched returns a channel that is nudged with each renewal.
func (x *claim) watched() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved = make(chan struct{}, 1)
	return x.moved
}

// decide gives whoever waits in Acquire his answer. x.mu is held.
func (x *claim) decide(err error) {
	if x.answer != nil {
		x.answer <- err
		x.answer = nil
	}
}

// giveUp ends the wait for an answer. It returns who was in the way, and the answer if it
// had come after all: errHeld if the claim had been admitted.
func (x *claim) giveUp() (seen tenure.State, late error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.answer == nil && x.held:
		late = errHeld
	case x.answer == nil:
		late = x.err
	}
	x.answer = nil
	x.end(errGaveUp)
	if x.seen != nil {
		seen = *x.seen
	}
	return seen, late
}

var errGaveUp = errors.New("not admitted")

var errReleased = fmt.Errorf("%w by its holder", tenure.ErrReleased)

// Release implements tenure.Lease.
func (x *claim) Release(ctx context.Context) error { return x.beginRelease()(ctx) }

// beginRelease ends the tenure, or the claim, and returns a function that waits until others
// know, which tells what Release returns.
func (x *claim) beginRelease() func(context.Context) error {
	_ = x.Check()
	x.mu.Lock()
	first := x.err == nil
	x.end(errReleased)
	if err := x.err; errors.Is(err, tenure.ErrLost) {
		x.mu.Unlock()
		return func(context.Context) error { return err }
	}
	if x.freed == nil {
		x.freed = make(chan struct{})
		if x.gone != nil {
			close(x.freed)
		}
	}
	left := x.freed
	x.mu.Unlock()
	if first {
		x.leaser.peer.driver.Step(flease.Release{ID: x.id})
	}
	return func(ctx context.Context) error { return x.released(ctx, left) }
}

func (x *claim) released(ctx context.Context, left <-chan struct{}) error {
	p := x.leaser.peer
	enough := time.NewTimer(max(x.ttl, time.Second)) // it has ended by itself then
	defer enough.Stop()
	why := errors.New("no majority answered")
	select {
	case <-left:
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
	return fmt.Errorf("the release was not confirmed, the lease ends by itself within %v: %w: %w",
		(max(x.remaining(), 0) + x.delay + p.cfg.Epsilon).Round(time.Millisecond), tenure.ErrUnavailable, why)
}
