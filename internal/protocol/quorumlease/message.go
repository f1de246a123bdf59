package quorumlease

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Messages between members. Each may be lost, repeated, late and out of order.
type (
	// Request asks a voter for a promise, fresh or renewed.
	Request struct {
		Boot uint64 // of the sender
		Seq  uint64 // grows with each; the sender knows when it sent it
	}
	// Promise binds its grantor: for TTL from the request on, it names the receiver as a
	// holder in each report of entries that it acknowledges. It carries its length,
	// and the Stamp of the first promise of its unbroken chain (R5, Q-1).
	Promise struct {
		Boot, Seq uint64 // of the request
		TTL       time.Duration
		Stamp     Stamp
	}
	// Return gives promises back: the sender counts none that answers a request up to Seq.
	Return struct{ Boot, Seq uint64 }

	// Report tells the leader of a term how far the sender's log goes and to which holders
	// the sender was bound when it had that. It is complete in itself: its words about
	// entries up to Durable stay true, so reports may come late or out of order (R4, Q-5).
	Report struct {
		Boot uint64
		Term uint64
		// Up to Durable the log equals the leader's and is flushed. Up to Received it
		// equals the leader's, and local reads wait for the release of those entries; a
		// crash may lose them (R31, Q-4).
		Durable, Received uint64
		// Holders are those that the sender was bound to after the entries up to
		// Durable were in its log, by member.
		Holders []Lifetime
		// Everyone reports that the sender may be bound to anybody, because it restarted a
		// short while ago (R14).
		Everyone bool
	}
	// News comes from the leader. Everything up to Released is released, and the promises
	// of the Stalled holders are not to be renewed (R19, R21). In key order, the entries
	// from there to Horizon are released, too, except those in Held.
	News struct {
		Term     uint64
		Released uint64
		Horizon  uint64
		Held     []uint64
		Stalled  []machine.NodeID
	}
)

// Lifetime is one life of a member: from a start to the next.
type Lifetime struct {
	Member machine.NodeID
	Boot   uint64
}

// Stamp is the end of the grantor's log at the moment of a fresh promise.
type Stamp struct{ Term, Index uint64 }

// Log describes a member's own log.
type Log struct {
	Term uint64
	// Last is the index of the last entry. Up to Received the leader of Term has vouched
	// for the log, and up to Commit it is committed.
	Last, Received, Commit uint64
}

// reaches reports whether a log has every released entry that the grantor had acknowledged
// when it set the stamp, including entries that are released later (R5). A committed entry
// is in the log of each later leader, so a log that a later leader vouches for is as good.
// A holder has to know the term of the stamp: entries may have been released in that term
// without it, and it may still take itself for the leader.
func (l Log) reaches(s Stamp) bool {
	return l.Term >= s.Term && max(l.Commit, l.Received) >= s.Index
}
