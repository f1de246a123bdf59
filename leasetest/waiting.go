package leasetest

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure"
)

// queued returns once somebody waits for the name.
func (b *bench) queued(l tenure.Leaser, name string) {
	b.Helper()
	b.waiting(l, name, 1)
}

func waitingEnds(b *bench) {
	l, m := b.leaser(), b.leaser()
	lease := b.acquire(l, b.claim())
	short, cancel := context.WithTimeout(b.ctx, b.TTL/4)
	defer cancel()
	began := time.Now()
	_, err := m.Acquire(short, b.claim())
	if !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("Acquire returns %v when its time is over, want %q", err, context.DeadlineExceeded)
	}
	if he := (tenure.HeldError{}); !errors.As(err, &he) || he.Holder != lease.Holder() {
		b.Errorf("Acquire returns %q when its time is over, want a HeldError that names %q", err, lease.Holder())
	}
	if d := time.Since(began); d > b.TTL/4+b.TTL/2 {
		b.Errorf("Acquire came back after %v, with a context of %v", d, b.TTL/4)
	}
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	if _, err := m.Acquire(over, b.claim()); !errors.Is(err, context.Canceled) {
		b.Errorf("Acquire with a canceled context returns %v, want %q", err, context.Canceled)
	}
	// Silence is told from a holder.
	if b.Cut != nil {
		b.Cut(m)
		for verb, acquire := range map[string]func(context.Context, tenure.Claim) (tenure.Lease, error){
			"Acquire": m.Acquire, "TryAcquire": m.TryAcquire,
		} {
			short, cancel := context.WithTimeout(b.ctx, b.TTL/4)
			_, err := acquire(short, b.claim())
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, tenure.ErrUnavailable) || errors.As(err, new(tenure.HeldError)) {
				b.Errorf("%s, cut off, returns %v when its time is over, want %q and %q", verb, err, context.DeadlineExceeded, tenure.ErrUnavailable)
			}
		}
		b.Heal(m)
	}
	// A claim that gave up stands in nobody's way.
	b.release(lease)
	next, err := l.TryAcquire(b.ctx, b.claim())
	if err != nil {
		b.Fatalf("after the holder released and the waiter gave up: %v", err)
	}
	b.release(next)
}
