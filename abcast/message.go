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
	// Transfer brings the sender's Base to a member that is so far behind that the
	// decisions are forgotten.
	Transfer struct{ Base Base }
)

// Inputs of the machine's owner, beside fastct.Suspect.
type (
	// Broadcast has a message ordered. Delivered, Repeated or Refused tells of it.
	Broadcast struct{ Message }
	// Trim says that the owner's state after the message at Position is App. What led to
	// it is forgotten; a member that lacks that is given App, and so is the owner after
	// a restart. A Position that was not delivered, or is below an earlier one, is
	// passed over.
	Trim struct {
		Position uint64
		App      []byte
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
	// Installed gives the owner the state that he has to go on from: the next that is
	// delivered is at Position+1.
	Installed struct {
		Position uint64
		App      []byte
	}
)

// Records of the log, beside those of fastct and asynclease.
type (
	// Base is what later decisions are applied to: the order's state after an instance,
	// and the owner's after a position that may be some messages further.
	Base struct {
		Order    State
		Position uint64
		App      []byte
	}
)
