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
	// Promise is the grantor's: for TTL from your request on I report you as a holder
	// of everything that I acknowledge. It carries its length, and the Stamp of
	// the first promise of its unbroken chain (R5, Q-1).
	Promise struct {
		Boot, Seq uint64 // of the request
		TTL       time.Duration
		Stamp     Stamp
	}
	// Return gives promises back: the sender believes in none that answers a request
	// up to Seq.
	Return struct{ Boot, Seq uint64 }

	// Report tells the leader of a term what the sender's log holds and to whom the
	// sender was bound when it had it. It speaks for itself: what it says of entries
	// up to Durable stays true, so reports may come late or out of order (R4, Q-5).
	Report struct {
		Boot uint64
		Term uint64
		// Durable is up to where the log is the leader's and flushed. Received is up
		// to where it is the leader's, and what it has there is waited for by reads;
		// after a crash it may be lost (R31, Q-4).
		Durable, Received uint64
		// Holders are those that the sender was bound to after the entries up to
		// Durable were in its log, by member.
		Holders []Lifetime
		// Everyone says that it may be bound to anybody: it restarted a short while
		// ago and knows no more (R14).
		Everyone bool
	}
	// News is the leader's: everything up to Released is released, and Stalled are
	// holders whose promises are not to be renewed (R19, R21).
	// In key order, everything between it and Horizon is released, too, but for
	// what is Held.
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

// Stamp is the place where a grantor's log ended when it made a promise that it was
// not bound to before.
type Stamp struct{ Term, Index uint64 }

// Log is what a member knows of its own log.
type Log struct {
	Term uint64
	// Last is the index of the last entry, Received up to where the leader of Term
	// has vouched for it, Commit up to where it is committed.
	Last, Received, Commit uint64
}

// reaches reports whether a log has everything that a grantor had acknowledged when
// it set the stamp and that was or will be released (R5). What is committed is in
// the log of each later leader, so a log that a later leader vouches for is as good.
// One that a grantor of a later term has promised something has to know that term: what
// was released there by then was released without it, and it may take itself for the
// leader yet.
func (l Log) reaches(s Stamp) bool {
	return l.Term >= s.Term && max(l.Commit, l.Received) >= s.Index
}
