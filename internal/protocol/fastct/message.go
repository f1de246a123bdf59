package fastct

import "github.com/tenure-lease/tenure/internal/machine"

// Messages between members, named as in Figure 4. Again says that a message is
// repeated, because it was not answered: then a decision is sent once more.
type (
	// Estimate is of phase 1, to the round's coordinator. In FAST mode it carries no
	// value, for nobody would look at it.
	Estimate struct {
		CN    uint64
		Round int64
		TS    int64 // the round in which Value was adopted; -1 if it was proposed
		Value []byte
		Again bool
	}
	// NewEstimate is of phase 2, from the coordinator to all.
	NewEstimate struct {
		CN    uint64
		Round int64
		Value []byte
		Again bool
	}
	// Ack is of phase 3: the sender has adopted the coordinator's estimate.
	Ack struct {
		CN    uint64
		Round int64
		Again bool
	}
	// Nack is of phase 3: the sender has not, and will not.
	Nack struct {
		CN    uint64
		Round int64
	}
	// Abort is from a coordinator that will not finish a round.
	Abort struct {
		CN    uint64
		Round int64
	}
	// Call is from the coordinator of a NORMAL round to those whose estimates it
	// lacks, or, with Round 0, from a member that lacks the decision.
	Call struct {
		CN    uint64
		Round int64
	}
	// Decide is the decision. Value may be left out: a member that has acknowledged in
	// Round or later has it.
	Decide struct {
		CN    uint64
		Round int64
		Value []byte
		Whole bool // Value is there
	}
	// Counts is FD of task Transform: how often each member was suspected, in the order
	// of Config.Members. It tells that the sender lives.
	Counts struct{ Counts []uint64 }
	// Trimmed answers a message about an instance that was forgotten: all below Below
	// are.
	Trimmed struct{ Below uint64 }
)

// Inputs of the machine's owner.
type (
	// Propose proposes a value to an instance, from 1; once in each life of the member.
	Propose struct {
		CN    uint64
		Value []byte
	}
	// Leased answers a WantLease.
	Leased struct {
		ID      uint64
		Granted bool
		Until   uint64 // of a refusal: a hint, see asynclease.Verdict
	}
	// Suspect is the word of an outer failure detector, beside or instead of the machine's
	// own. Without heartbeats it is a step of task Transform, too.
	Suspect struct {
		Node      machine.NodeID
		Suspected bool
	}
	// Learn is a decision that the owner has heard of in another way.
	Learn struct {
		CN    uint64
		Value []byte
	}
	// Trim forgets the instances below Below, all of which have been decided here or
	// are known in another way.
	Trim struct{ Below uint64 }
)

// Input is one of these.
type Input interface{ input() }

func (Propose) input() {}
func (Leased) input()  {}
func (Suspect) input() {}
func (Learn) input()   {}
func (Trim) input()    {}

// Outcomes.
type (
	// WantLease asks the owner for lease(First, Last), to be answered with Leased.
	WantLease struct{ ID, First, Last uint64 }
	// GiveLease returns what a lease has from From on.
	GiveLease struct{ ID, From uint64 }
	// Wanted tells that somebody takes part in an instance to which the owner has
	// proposed nothing yet. It should: others may have to wait for this member.
	Wanted struct {
		CN   uint64
		From machine.NodeID
	}
	// Decided is a decision, once for each instance.
	Decided struct {
		CN    uint64
		Value []byte
		Round int64 // in which it was decided; -1 if somebody else said so
	}
	// Behind tells that others have forgotten the instances below Below.
	Behind struct {
		From  machine.NodeID
		Below uint64
	}
	// Leader is whom this member trusts from now on: the output of Ω.
	Leader struct{ Node machine.NodeID }
)

// Outcome is one of these.
type Outcome interface{ outcome() }

func (WantLease) outcome() {}
func (GiveLease) outcome() {}
func (Wanted) outcome()    {}
func (Decided) outcome()   {}
func (Behind) outcome()    {}
func (Leader) outcome()    {}

// Records of the log, see machine.Persist.
type (
	// Identity is the first record: it names the member that owns the log.
	Identity struct {
		Node    machine.NodeID
		Members []machine.NodeID
		Plain   bool
		Spread  bool
	}
	// Entered is that a NORMAL round was begun: it is durable before its Estimate.
	Entered struct {
		CN    uint64
		Round int64
	}
	// Adopted is that an estimate was adopted in a round: it is durable before its Ack.
	Adopted struct {
		CN    uint64
		Round int64
		Value []byte
	}
	// Settled is a decision; Value is left out if it is the last one adopted. It need
	// not be forced: a majority has adopted it.
	Settled struct {
		CN      uint64
		Value   []byte
		Adopted bool
	}
	// Gone is that instances below were trimmed.
	Gone struct{ Below uint64 }
)
