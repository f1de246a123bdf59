package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

// memoryLease renews its entry until its own deadline, which is a twentieth of
// the TTL before the store's.
type memoryLease struct {
	leaser *memoryLeaser
	entry  *entry
	ctx    context.Context // ends with the tenure
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu       sync.Mutex
	deadline time.Time
	alarm    *time.Timer
	err      error
}

func (l *memoryLeaser) join(ctx context.Context, c tenure.Claim) (*memoryLease, error) {
	sent := l.now()
	x := &memoryLease{leaser: l, done: make(chan struct{})}
	var mu sync.Mutex // giving up and being let in late must agree
	gaveUp := false
	err := l.line.call(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !gaveUp {
			x.entry = l.store.enqueue(c)
		}
	})
	if err != nil {
		mu.Lock()
		defer mu.Unlock()
		gaveUp = true
		l.store.remove(x.entry)
		return nil, err
	}
	x.ctx, x.cancel = context.WithCancelCause(context.Background())
	x.deadline = sent.Add(x.ttl())
	x.mu.Lock() // the alarm may ring at once
	x.alarm = time.AfterFunc(x.deadline.Sub(l.now()), func() { x.Check() })
	x.mu.Unlock()
	l.mu.Lock()
	l.leases[x] = struct{}{}
	l.mu.Unlock()
	go x.renew(sent)
	return x, nil
}

func (x *memoryLease) ttl() time.Duration { return x.entry.claim.TTL * 19 / 20 }

func (x *memoryLease) renew(sent time.Time) {
	for {
		select {
		case <-x.ctx.Done():
			return
		case <-time.After(sent.Add(x.entry.claim.TTL / 3).Sub(x.leaser.now())):
		}
		sent = x.leaser.now()
		var known bool
		if x.leaser.line.call(x.ctx, func() { known = x.leaser.store.renew(x.entry) }) == nil {
			x.answered(sent, known)
		}
	}
}

func (x *memoryLease) answered(sent time.Time, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.err != nil:
	case !known || !x.leaser.now().Before(x.deadline):
		x.end(fmt.Errorf("%w: expired at the store", tenure.ErrLost))
	default:
		x.deadline = sent.Add(x.ttl())
		x.alarm.Reset(x.deadline.Sub(x.leaser.now()))
	}
}

// end is called with x.mu held.
func (x *memoryLease) end(err error) {
	if x.err == nil {
		x.err = err
		x.alarm.Stop()
		x.cancel(err)
		close(x.done)
	}
}

func (x *memoryLease) Name() string             { return x.entry.claim.Name }
func (x *memoryLease) Holder() string           { return x.entry.claim.Holder }
func (x *memoryLease) Token() uint64            { return x.entry.token }
func (x *memoryLease) Done() <-chan struct{}    { return x.done }
func (x *memoryLease) Context() context.Context { return x.ctx }

func (x *memoryLease) Deadline() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.deadline.Add(-x.leaser.sleep())
}

func (x *memoryLease) Check() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil && !x.leaser.now().Before(x.deadline) {
		x.end(fmt.Errorf("%w: its deadline passed without a renewal", tenure.ErrLost))
	}
	return x.err
}

func (x *memoryLease) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Release gives up after half a second without the store, or with ctx.
func (x *memoryLease) Release(ctx context.Context) error {
	x.Check()
	x.mu.Lock()
	x.end(fmt.Errorf("%w by its holder", tenure.ErrReleased))
	end := x.err
	x.mu.Unlock()

	x.leaser.mu.Lock()
	delete(x.leaser.leases, x)
	x.leaser.mu.Unlock()
	if errors.Is(end, tenure.ErrLost) && x.entry.claim.LockDelay > 0 {
		return end // a release after the loss does not shorten the delay
	}
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	err := x.leaser.line.call(ctx, func() { x.leaser.store.remove(x.entry) })
	switch {
	case errors.Is(end, tenure.ErrLost):
		return end
	case err != nil:
		return fmt.Errorf("the release was not confirmed, the lease ends by itself at its deadline: %w", err)
	}
	return nil
}
