package leasetest

import (
	"time"

	"github.com/tenure-lease/tenure"
)

func renewed(b *bench) {
	l := b.leaser()
	lease := b.acquire(l, b.claim())
	first := lease.Deadline()
	select {
	case <-lease.Done():
		b.Errorf("lost within three TTLs, without trouble: %v", lease.Err())
	case <-time.After(3 * b.TTL):
	}
	b.held(lease, "after three TTLs")
	if d := lease.Deadline(); d.Sub(first) < b.TTL {
		b.Errorf("the deadline moved by %v in three TTLs; want it renewed", d.Sub(first))
	}
	b.refused(b.leaser(), b.claim(), "after three TTLs")
	b.release(lease)
}

func shortOutage(b *bench) {
	b.require("Cut", b.Cut != nil)
	l := b.leaser()
	lease := b.acquire(l, b.claim())
	b.Cut(l)
	b.pass(b.TTL / 2)
	b.Heal(l)
	b.pass(b.TTL)
	b.held(lease, "a TTL after an outage of half a TTL")
	b.release(lease)
}

// lose cuts the holder off, and returns once the lease is lost. That was at its deadline, if not
// before: on a busy machine Done may be closed later.
func (b *bench) lose(l tenure.Leaser, lease tenure.Lease) (lost time.Time) {
	b.Helper()
	deadline := lease.Deadline()
	b.Cut(l)
	// A renewal may have been on its way: then the deadline is a little later.
	b.await(lease.Done(), time.Until(deadline)+b.TTL+grace, "Done of a holder that is cut off")
	lost = time.Now()
	if deadline = lease.Deadline(); deadline.Before(lost) {
		lost = deadline
	}
	return lost
}

func doneAtDeadline(b *bench) {
	b.require("Cut", b.Cut != nil)
	l := b.leaser()
	lease := b.acquire(l, b.claim())
	if d := time.Until(lease.Deadline()); d > b.TTL {
		b.Errorf("the deadline is %v away, with a TTL of %v", d, b.TTL)
	}
	b.Cut(l)
	deadline := lease.Deadline()
	b.await(lease.Done(), b.TTL+grace, "Done of a holder that nobody answers")
	if d := lease.Deadline(); d.Sub(deadline) > grace {
		b.Errorf("the deadline moved by %v although nobody answered", d.Sub(deadline))
	}
	if early := time.Until(deadline); early > grace {
		b.Errorf("lost %v before the deadline, although no answer said so: %v", early, lease.Err())
	}
	b.ended(lease, tenure.ErrLost, "cut off")
}

// deadlineFromSend makes answers slow: a deadline that counts from the answer is
// later by as much than what the store promised.
func deadlineFromSend(b *bench) {
	b.require("Lag", b.Lag != nil)
	l := b.leaser()
	lag := b.TTL / 5
	b.Lag(l, lag)
	lease := b.acquire(l, b.claim())
	for range 10 {
		if d := time.Until(lease.Deadline()); d > b.TTL-lag {
			b.Errorf("the deadline is %v away, with a TTL of %v and answers that take %v: it must count from when the request was sent", d, b.TTL, lag)
			break
		}
		b.pass(b.TTL / 10)
	}
	b.held(lease, "with slow answers")
	b.release(lease)
}

// lateRenewal lets every renewal reach the store, and every answer come too late.
func lateRenewal(b *bench) {
	b.require("Lag", b.Lag != nil)
	l := b.leaser()
	lease := b.acquire(l, b.claim())
	b.Lag(l, 2*b.TTL)
	// A renewal may have been answered before: then the deadline is later than the first.
	b.await(lease.Done(), b.TTL+grace, "Done, with answers that take two TTLs")
	b.ended(lease, tenure.ErrLost, "at the deadline, with renewals that the store knows and we do not")
	b.Lag(l, 0)
	b.pass(2 * b.TTL) // the late answers arrive
	b.ended(lease, tenure.ErrLost, "renewals were answered late")
}

// lossIsFinal heals a partition just after the deadline, while the lock delay
// keeps the name in the holder's hands as far as the store can tell.
func lossIsFinal(b *bench) {
	b.require("Cut", b.Cut != nil)
	l := b.leaser()
	c := b.claim()
	c.LockDelay = 2 * b.TTL
	lease := b.acquire(l, c)
	b.lose(l, lease)
	b.Heal(l)
	b.pass(b.TTL)
	b.ended(lease, tenure.ErrLost, "a TTL after the partition healed")
}
