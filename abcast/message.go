package abcast

import (
	"github.com/tenure-lease/tenure/machine"
)

// Message is what is broadcast. A client's messages are numbered from 1, and each is
// ordered once and after the one before it.
type Message struct {
	Client  machine.ID
	Seq     uint64
	Payload []byte
}

func (m Message) size() int { return len(m.Payload) + 32 }

// Messages between members, beside those of fastct and asynclease.
type (
	// Submit is a reliable broadcast of messages, to be ordered.
	Submit struct{ Messages []Message }
	// Status tells up to which instance the sender has delivered.
	Status struct{ Delivered uint64 }
	// Fetch asks for the decisions from an instance on. Some come, as fastct.Decide.
	Fetch struct{ From uint64 }
	// Transfer brings the state after an instance to a member that is so far behind
	// that the decisions are forgotten.
	Transfer struct {
		Order State
		App   []byte
	}
)

// Inputs of the machine's owner, beside fastct.Suspect.
type (
	// Broadcast has a message ordered. Delivered, Repeated or Refused tells of it.
	Broadcast struct{ Message }
	// Trim says that nobody asks this member for messages at positions below any more.
	Trim struct{ Below uint64 }
	// Snapshot answers a WantSnapshot: the owner's state after exactly the messages up
	// to its position.
	Snapshot struct {
		To  machine.NodeID
		App []byte
	}
)

// Outcomes, beside fastct.Leader.
type (
	// Delivered is the next message in the order. Positions begin at 1 and have no gaps.
	// After a restart some may be delivered again, each at its position.
	Delivered struct {
		Position uint64
		Message
	}
	// Repeated tells that a Broadcast of this life was ordered before.
	Repeated struct {
		Client machine.ID
		Seq    uint64
	}
	// Refused tells that a Broadcast was not taken.
	Refused struct {
		Client machine.ID
		Seq    uint64
		Err    error
	}
	// WantSnapshot asks for the owner's state at a position, for another member.
	WantSnapshot struct {
		To       machine.NodeID
		Position uint64
	}
	// Installed gives the owner the state that he has to go on from: the next that is
	// delivered is at Position+1.
	Installed struct {
		Position uint64
		App      []byte
	}
)

// Records of the log, beside those of fastct and asynclease.
type (
	// Base is the state that later decisions are applied to; App is there if it came
	// from another member and the owner may not have kept it.
	Base struct {
		Order State
		App   []byte
	}
)
