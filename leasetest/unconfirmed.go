package leasetest

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure"
)

// unconfirmed releases a lease while the store cannot be reached: the caller must hear that
// the next holder may have to wait, and the lease is over all the same.
func unconfirmed(b *bench) {
	b.require("Cut", b.Cut != nil)
	l, m := b.leaser(), b.leaser()
	lease := b.acquire(l, b.claim())
	b.Cut(l)
	deadline := lease.Deadline()
	ctx, cancel := context.WithTimeout(b.ctx, b.TTL/4)
	defer cancel()
	err := lease.Release(ctx)
	switch {
	case err == nil:
		b.Errorf("Release returns nil although the store cannot have heard of it; want an error: the next holder has to wait for the deadline")
	case errors.Is(err, tenure.ErrLost) && time.Until(deadline) > 0:
		b.Errorf("Release returns %q before the deadline, although nobody else can hold: want the store's error", err)
	}
	if err := lease.Check(); err == nil {
		b.Errorf("after a Release that was not confirmed: Check returns nil, want that the tenure has ended")
	}
	if !closed(lease.Done()) {
		b.Errorf("after a Release that was not confirmed: Done is open, want it closed")
	}
	next := b.acquire(m, b.claim())
	if d := time.Until(deadline); d > b.TTL/2 {
		b.Errorf("the next holder came %v before the deadline of a lease whose release was not confirmed", d)
	}
	b.Heal(l)
	b.pass(b.TTL / 2) // a request that was on its way arrives
	b.held(next, "after the late release of another")
	b.release(next)
}

// suspend has the machine of a holder sleep. Nothing there runs meanwhile; on waking, the
// first look at the lease must show that time went on.
func suspend(b *bench) {
	b.require("Suspend", b.Suspend != nil)
	l := b.leaser()
	lease := b.acquire(l, b.claim())
	b.Cut(l) // no renewal may get through as soon as it wakes
	b.Suspend(l, 2*b.TTL)
	if err := lease.Check(); !errors.Is(err, tenure.ErrLost) {
		b.Errorf("after a suspend of two TTLs Check returns %v, want %q: its clock does not count suspend", err, tenure.ErrLost)
	}
	if d := time.Until(lease.Deadline()); d > 0 {
		b.Errorf("after a suspend of two TTLs the deadline is %v ahead: its clock does not count suspend", d)
	}
	b.await(lease.Done(), b.TTL, "Done, after a suspend of two TTLs")
}
