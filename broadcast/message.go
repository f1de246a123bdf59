package broadcast

import (
	"encoding/hex"

	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// MaxMessageBytes is the size of the largest payload.
const MaxMessageBytes = broadcast.MessageBytesMax

// MemberID names a member of a group. 0 is none.
type MemberID uint64

// ClientID names a client of BroadcastAs; NewClient makes them.
type ClientID [16]byte

// String is the ID in hexadecimal.
func (id ClientID) String() string { return hex.EncodeToString(id[:]) }

// Position is a place in the order, from 1.
type Position uint64

// Message is a message at its place.
type Message struct {
	Position Position
	Client   ClientID // the client that broadcast it; a node itself has an ID of its own
	Seq      uint64   // the client's number
	Payload  []byte   // not to be changed
	// Members, of a message that is a change of the members, are those from here on: such a
	// one has no payload, nor has one that belongs to a Barrier. Where a founder listens that
	// no AddMember has named since is as this member's own configuration has it.
	Members map[MemberID]string
}

func message(m broadcast.Message) Message {
	return Message{Position(m.Position), ClientID(m.Client), m.Seq, m.Payload, members[MemberID](m.Members)}
}
