package broadcast

import "github.com/tenure-lease/tenure/internal/member/broadcast"

// Why an operation failed. Errors wrap these; compare them by errors.Is.
var (
	// ErrBusy says that too much waits to be ordered. Nothing was sent; try again later.
	ErrBusy = broadcast.ErrBusy
	// ErrUnknown says that nobody waits for the outcome any more: the message may have
	// been ordered, and may be yet.
	ErrUnknown = broadcast.ErrUnknown
	// ErrClosed says that the node was closed.
	ErrClosed = broadcast.ErrClosed
	// ErrTrimmed says that messages from a position on are asked for that are not kept
	// any more. OpenSnapshot has the state that they led to.
	ErrTrimmed = broadcast.ErrTrimmed
	// ErrPosition says that there can be no snapshot of a position, or that it cannot be
	// trimmed.
	ErrPosition = broadcast.ErrPosition
	// ErrTooLarge says that a payload is larger than MaxMessageBytes.
	ErrTooLarge = broadcast.ErrTooLarge
	// ErrSequence says that a client's message before this one was neither ordered nor
	// broadcast here, or that the client was not heard of for long and is forgotten. This
	// call has not ordered the message, and will not.
	ErrSequence = broadcast.ErrSequence
	// ErrClient says that a client's ID was not made by NewClient, or at a member that is
	// further than this one. Nothing was sent.
	ErrClient = broadcast.ErrClient
	// ErrNotMember says that the node waits to be made a member. Nothing was sent.
	ErrNotMember = broadcast.ErrNotMember
	// ErrRemoved says that the node is a member no more. It should be closed, and its
	// directory can be deleted.
	ErrRemoved = broadcast.ErrRemoved
	// ErrChange says that a change of the members makes no sense: none was made.
	ErrChange = broadcast.ErrChange
	// ErrForgotten says that this member's directory is not the one that others know, or an
	// older copy of it. Promises that it made since are missing, and with this directory it
	// could make two orders. Remove the member, and add another with a new ID and an empty
	// directory.
	ErrForgotten = broadcast.ErrForgotten
	// ErrOrder says that more than half of the other members have another order of messages
	// than this one. Replace the member as after ErrForgotten.
	ErrOrder = broadcast.ErrOrder
)
