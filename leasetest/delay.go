package leasetest

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure"
)

func lockDelay(b *bench) {
	l, m := b.leaser(), b.leaser()
	c := b.claim()
	c.LockDelay = b.TTL

	lease := b.acquire(l, c)
	if d := time.Until(lease.Deadline()); d > b.TTL {
		b.Errorf("the deadline is %v away, with a TTL of %v: the lock delay is not the holder's", d, b.TTL)
	}
	b.release(lease)
	released := time.Now()
	lease = b.acquire(l, c)
	if d := time.Since(released); d > b.TTL {
		b.Errorf("%v from release to the next holder: a release is not delayed", d)
	}

	b.require("Cut", b.Cut != nil)
	lost := b.lose(l, lease)
	b.delayed(m, lost, c.LockDelay)
}

// delayed reports a next holder that does not wait for the lock delay after the loss, or
// waits for much longer.
func (b *bench) delayed(l tenure.Leaser, lost time.Time, delay time.Duration) {
	b.Helper()
	next := b.acquire(l, b.claim())
	switch d := time.Since(lost); {
	case d < delay-grace:
		b.Errorf("the next holder started %v after the loss, want a lock delay of %v", d, delay)
	case d > delay+3*b.TTL:
		b.Errorf("the next holder started %v after the loss, want it soon after a lock delay of %v", d, delay)
	}
	b.release(next)
}

// longDelay has lock delays far above the TTL: they must neither keep the holder from
// renewing in time nor delay a release, and are cut short by nothing after a loss.
func longDelay(b *bench) {
	l, m := b.leaser(), b.leaser()
	c := b.claim()
	c.LockDelay = 100 * b.TTL
	lease := b.acquire(l, c)
	for range 5 {
		select {
		case <-lease.Done():
			b.Fatalf("lost without trouble, with a lock delay of 100 TTLs: %v", lease.Err())
		case <-time.After(b.TTL / 2):
		}
		if d := time.Until(lease.Deadline()); d > b.TTL {
			b.Errorf("the deadline is %v away, with a TTL of %v: the lock delay is not the holder's", d, b.TTL)
		}
		b.refused(m, b.claim(), "during the tenure")
	}
	b.held(lease, "after two TTLs and a half, with a lock delay of 100 TTLs")
	b.release(lease)
	b.release(b.now(m, b.claim(), "after the release of a lease with a lock delay of 100 TTLs"))

	b.require("Cut", b.Cut != nil)
	c.LockDelay = 4 * b.TTL
	lease = b.acquire(l, c)
	lost := b.lose(l, lease)
	b.Heal(l)
	if err := lease.Release(b.ctx); !errors.Is(err, tenure.ErrLost) {
		b.Errorf("Release of a lost lease returns %v, want %q", err, tenure.ErrLost)
	}
	b.delayed(m, lost, c.LockDelay)
}
