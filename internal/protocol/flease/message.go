package flease

import (
	"github.com/tenure-lease/tenure/internal/machine"
)

// Holding is a lease λ = (p, t) of section 3.1, in the register of its resource. The
// paper's register has one; a Value lists all that share.
type Holding struct {
	// Token names the tenure: the ballot of its first WRITE.
	Token Ballot
	// Until is λ.t, lock delay included: others may come when all clocks show more.
	Until Time
	// Holder is shown to people.
	Holder string
	// Owner and Incarnation are p. A peer that was restarted is another owner (E13).
	Incarnation uint32
	// Delay is the part of Until, in milliseconds, that the holder itself does not use.
	Delay uint32
	// Slots is how many may hold the resource while this one does.
	Slots int32
	Owner uint16
	// Heir, of a released lease, may come first until Until.
	Heir     uint16
	Released bool
}

// Value is the content of a register: v of Algorithm 1. Nil is ⊥. It is never changed.
type Value []Holding

// Kind says what an Op is.
type Kind uint8

const (
	// Read and Write are Algorithm 1's requests, the next four its answers.
	Read Kind = iota + 1
	Write
	AckRead
	NackRead
	AckWrite
	NackWrite
	// Skewed refuses a request whose ballot is ahead of the acceptor's clock by more than
	// ε: Written is what the acceptor's clock shows, as a ballot.
	Skewed
	// Peek asks for the value without a promise. A Read with Slots is answered like one
	// while the lease that is there keeps its claim out. With a Ticket its sender waits,
	// and is told by a Learn when its turn may have come.
	Peek
	Peeked
	// Learn is a hint: it never extends anything and may be lost.
	Learn
	// Quit withdraws a Ticket. It has no answer.
	Quit
	// WrongView refuses a request of an earlier epoch that the resource's cell has not
	// survived, or of a view that is not active.
	WrongView
)

// Op is one operation on one resource. Requests carry the name; answers carry the
// request's Ref and Ballot back instead.
type Op struct {
	Kind   Kind
	Ref    uint32 // the requester's own
	Ballot Ballot
	Name   string // of requests, and of Learn

	// Written is, of AckRead, Peeked and Learn, the ballot of the WRITE that the value is
	// from; of NackRead and NackWrite the ballot that was promised or written.
	Written Ballot
	Value   Value // of Write, AckRead, Peeked, Learn

	Ticket Ballot // of Peek and Quit, and of a Write that ends a wait; of Learn whose turn it is
	Slots  int32  // of Peek with a Ticket, and of a Read that promises nothing while they do not fit
	// Queue has, in AckRead and Peeked, the first few waiters, by ticket.
	Queue []Waiter
	// Waiting is how many wait.
	Waiting uint32
}

// Waiter is a claim that waits.
type Waiter struct {
	Ticket Ballot
	Slots  int32
}

// maxQueue is how many waiters an acceptor tells of.
const maxQueue = 16

// Batch is the body of every envelope: all that one peer sends to another at one time.
type Batch struct {
	// Incarnation is the sender's.
	Incarnation uint32
	// Epoch and Digest are the sender's view.
	Epoch  uint64
	Digest uint32
	// View carries news about the membership; nil most of the time.
	View *ViewNews
	Ops  []Op
}

// ViewNews is a peer's news about a view.
type ViewNews struct {
	View View
	// Closed: the sender does not vote any more in the cells of earlier views that this
	// one changes, and never will.
	Closed bool
	// Active: the view's cells vote.
	Active bool
}

// envelope of a batch.
func envelope(from, to machine.NodeID, b *Batch) machine.Envelope {
	return machine.Envelope{From: from, To: to, Body: b}
}
