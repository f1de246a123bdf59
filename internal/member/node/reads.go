package node

import (
	"context"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// reads answers linearizable reads by this member's lease, while it has one.
type reads struct {
	clock func() machine.Mono
	// lease is published by the stepping goroutine before any message of the same
	// turn leaves.
	lease atomic.Pointer[readLease]
	// keys is that of key order.
	keys atomic.Pointer[keyLease]
	seen keysSeen
	// Counts of answered reads, since the start: those under the lease, those for which
	// this member asked the others as their leader, and for which it asked the leader.
	local, rounds, forwarded atomic.Uint64
	told                     uint64 // of local, by the last look
}

// readLease is a lease that was published at a reading of the clock.
type readLease struct {
	replica.ReadLease
	since machine.Mono
}

// keyLease is the same in key order.
type keyLease struct {
	*replica.KeyLease
	since machine.Mono
}

// lasts reports whether a lease is in force that was published at a reading of the clock. One
// that went back says nothing: the member is about to end for it (R11).
func lasts(since, now, until machine.Mono) bool { return since <= now && now < until }

// leased gives the index that a state must have for a linearizable read which arrived
// before the call, if the lease lasts. The order matters: first the lease, then the clock,
// and the state last. Every write that was acknowledged anywhere while the lease lasted is
// in this member's log, and was when the lease was published with that index.
func (rs *reads) leased() (index uint64, ok bool) {
	if l := rs.lease.Load(); l != nil && l.Until > 0 && lasts(l.since, rs.clock(), l.Until) {
		return l.Index, true
	}
	return 0, false
}

// withdraw takes the leases of both orders from readers.
func (rs *reads) withdraw() {
	rs.lease.Store(nil)
	rs.keys.Store(nil)
}

// count counts a read that is answered.
func (rs *reads) count(local, leading bool) {
	switch {
	case local:
		rs.local.Add(1)
	case leading:
		rs.rounds.Add(1)
	default:
		rs.forwarded.Add(1)
	}
}

// ReadCounts are how many linearizable reads this member has answered since it
// started: under its lease, as the leader after asking the others, and after asking
// the leader.
func (n *Node) ReadCounts() (local, rounds, forwarded uint64) {
	return n.reads.local.Load(), n.reads.rounds.Load(), n.reads.forwarded.Load()
}

// SetReadPolicy sets the cluster's policy of read leases. With static/key the keys stay
// divided as they are, if they are: see SetReadCells. Errors are quorumlease.ErrPolicy and
// Propose's.
func (n *Node) SetReadPolicy(ctx context.Context, policy string) error {
	if _, err := quorumlease.ParsePolicy(policy); err != nil {
		return err
	}
	_, err := n.Propose(ctx, wrapperspb.String(policy))
	return err
}

// look tells the replica, now and then, that its lease is of use.
func (rs *reads) look(n *Node) {
	if now := rs.local.Load(); now != rs.told {
		rs.told = now
		n.driver.Step(replica.Served{Keys: rs.seen.take()})
	}
}
