package asynclease

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Request names an invocation of lease(). No two have the same, so that two with the
// same arguments are told apart.
type Request struct {
	Node machine.NodeID
	Life uint64
	Seq  uint64
}

func (r Request) String() string { return fmt.Sprintf("%d.%d.%d", r.Node, r.Life, r.Seq) }

// Messages between members.
type (
	// Lease asks for an interval: LEASE of Figure 2. Requests of the same life with a
	// Seq below Open are over, and their verdicts may be forgotten.
	Lease struct {
		Request  Request
		Interval Interval
		Open     uint64
	}
	// Ack grants what a Lease asked for, as far as one acceptor goes.
	Ack struct{ Request Request }
	// Nack refuses it. Until is the last integer that the acceptor has permitted to
	// somebody else without a gap, from the interval's first on; 0 if that first one
	// is free.
	Nack struct {
		Request Request
		Until   uint64
	}
	// Give gives back what a request may have of From and above. It may be lost.
	Give struct {
		Request Request
		From    uint64
	}
)

// Inputs of the machine's owner.
type (
	// Ask invokes lease(First, Last). The ID is the owner's, not used before in this life.
	Ask struct {
		ID uint64
		Interval
	}
	// Return gives back a granted lease's integers from From on. The owner must have
	// stopped using them.
	Return struct{ ID, From uint64 }
	// Forget says that no lease below Below is needed any more, at any member: this
	// acceptor will refuse them, and forgets what it permitted there.
	Forget struct{ Below uint64 }
)

// Input is an Ask, a Return or a Forget.
type Input interface{ input() }

func (Ask) input()    {}
func (Return) input() {}
func (Forget) input() {}

// Verdict is the outcome of an Ask.
type Verdict struct {
	ID uint64
	Interval
	Granted bool
	// Until, of a refusal, is a hint: some acceptor refuses all from First to Until.
	Until uint64
	// Err is ErrInterval if there was nothing to ask for.
	Err error
}

// Records of the log, see machine.Persist.
type (
	// Identity is the first record: it names the member that owns the log.
	Identity struct {
		Node    machine.NodeID
		Members []machine.NodeID
	}
	// Permitted is that an interval was marked for a request.
	Permitted struct {
		Request  Request
		Interval Interval
	}
	// Cut is that a request has given back From and above.
	Cut struct {
		Request Request
		From    uint64
	}
	// Floor is that all below is refused.
	Floor struct{ Below uint64 }
)
