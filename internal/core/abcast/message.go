package abcast

import (
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Message is what is broadcast. A client's messages are numbered from 1, and each is
// ordered once and after the one before it. His ID is made by NewClient.
type Message struct {
	Client  machine.ID
	Seq     uint64
	Payload []byte
	Change  bool // Payload is that of a Change of the members
}

func (m Message) size() int { return len(m.Payload) + 32 }

// Messages between members, beside those of fastct and asynclease.
type (
	// Submit is a reliable broadcast of messages, to be ordered.
	Submit struct{ Messages []Message }
	// Status tells up to which instance the sender has delivered, and which epoch it has
	// begun, durably; and the position of the last message up to that instance, with the digest
	// of the order there.
	Status struct{ Delivered, Began, Position, Digest uint64 }
	// Fetch asks for the decisions from an instance on; from 0 on if the sender does not
	// know of any group yet. Some come.
	Fetch struct{ From uint64 }
	// Decisions are those of the instances from From on, of whichever epochs.
	Decisions struct {
		From   uint64
		Values [][]byte
	}
	// Transfer brings the sender's Base to a member that is so far behind that the
	// decisions are forgotten. The owners transfer the state that it rests on.
	Transfer struct{ Base Base }
)

// Inputs of the machine's owner.
type (
	// Broadcast has a message ordered. Delivered, Repeated, Forgotten or Refused tells of it.
	Broadcast struct{ Message }
	// Trim says that the owner has stored, durably, the state to which the messages up to
	// Position led, and that other members' owners can get it there. The messages are
	// forgotten here. A Position that was not delivered, or is below an earlier one, is
	// ignored.
	Trim struct{ Position uint64 }
	// Restored says that the owner has, durably, the state after the messages up to
	// Position, though they were not delivered here: it was told that it Lacks them.
	Restored struct{ Position uint64 }
	// Suspect is fastct.Suspect, for the consensus of the present epoch.
	Suspect fastct.Suspect
)

// Input is one of these.
type Input interface{ input() }

func (Broadcast) input() {}
func (Trim) input()      {}
func (Restored) input()  {}
func (Suspect) input()   {}

// Outcomes.
type (
	// Delivered is the next message in the order. Positions begin at 1 and have no gaps.
	// After a restart some may be delivered again, each at its position.
	Delivered struct {
		Position uint64
		Message
		// Members, of a change, are those from now on; of the founders that no change has named
		// the addresses are this member's own. Err is ErrChange if it was none.
		Members []Member
		Err     error
		// Digest is that of all messages up to this one, the same at all members.
		Digest uint64
	}
	// Began lists the members from now on. A member that is none of them orders nothing any
	// more, and has work until Established.
	Began struct{ Group Group }
	// Established reports that a majority of the members has begun their epoch: removed
	// members are not needed any more.
	Established struct{ Group Group }
	// Repeated tells that a Broadcast of this life was ordered, before it was made or at
	// a position that this member was given the state of.
	Repeated struct {
		Client machine.ID
		Seq    uint64
	}
	// Forgotten tells that it is not known whether a Broadcast of this life was ordered, and
	// that it will not be: this member was given a state in which the client is forgotten.
	Forgotten struct {
		Client machine.ID
		Seq    uint64
	}
	// Refused tells that a Broadcast was not taken, or, with ErrSequence, that it was not
	// ordered and cannot be any more.
	Refused struct {
		Client machine.ID
		Seq    uint64
		Err    error
	}
	// Lacks tells that others have forgotten what this member lacks: its owner has to get
	// what the messages up to Position led to from another one's owner, From's or any, and
	// say Restored. Until then this member is as far as it was; decisions that it is told
	// meanwhile may bring it further.
	Lacks struct {
		From     machine.NodeID
		Position uint64
	}
	// Installed tells that this member goes on from what was Restored: the next that is
	// delivered is at Position+1.
	Installed struct{ Position uint64 }
	// Contradicted tells that another member has other messages than this one up to a position:
	// one of the two has forgotten what it promised, and both orders were delivered to somebody.
	// From is not listened to any more. Outvoted is set if more than half of the other members
	// contradict this one.
	Contradicted struct {
		From     machine.NodeID
		Position uint64
		Outvoted bool
	}
	// Impossible tells that another member's message was dropped, and why: it does not run
	// the same program, or is none of this group, though it calls itself so. No later message
	// of the kind will do better.
	Impossible struct {
		From machine.NodeID
		Err  error
	}
	// Leader is fastct.Leader, of the present epoch.
	Leader fastct.Leader
)

// Outcome is one of these.
type Outcome interface{ outcome() }

func (Delivered) outcome()    {}
func (Began) outcome()        {}
func (Established) outcome()  {}
func (Repeated) outcome()     {}
func (Forgotten) outcome()    {}
func (Refused) outcome()      {}
func (Lacks) outcome()        {}
func (Installed) outcome()    {}
func (Contradicted) outcome() {}
func (Impossible) outcome()   {}
func (Leader) outcome()       {}

// Beside makes a type that embeds it an input and an outcome beside these, for a machine that
// stands around this one. This one takes no such input.
type Beside struct{}

func (Beside) input()   {}
func (Beside) outcome() {}

// Records of the log, beside those of fastct and asynclease.
type (
	// Learned is the decision of an instance in whose epoch this member has no part.
	Learned struct {
		CN    uint64
		Value []byte
	}
	// Started is that an epoch has begun here. It is forced, so that the records before it
	// are durable, too.
	Started struct{ Epoch uint64 }
	// Base is what later decisions are applied to: the order's state after an instance. The
	// owner has what the messages up to Position led to, which may be some further.
	Base struct {
		Order    State
		Position uint64
	}
)
