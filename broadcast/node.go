package broadcast

import (
	"context"
	"io"
	"iter"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// Node is a member. Its methods may be called by many goroutines.
type Node struct{ member *broadcast.Node }

// Start makes a node of a member. It returns when the node has read its directory, and runs. It
// does not wait for the others, as Broadcast does, nor for the group to take in a member that
// joins, as Joined does. An error names the field of the Config to change, or comes from the
// disk.
func Start(cfg Config) (*Node, error) {
	n, err := broadcast.Start(cfg.member())
	if err != nil {
		return nil, err
	}
	return &Node{n}, nil
}

// Close ends the node. Broadcasts under way get ErrUnknown; a snapshot that is being written
// is given up, but waited for.
func (n *Node) Close() error { return n.member.Close() }

// Broadcast has a message ordered, and returns its position when it was delivered here. If this
// member falls so far behind meanwhile that it gets another's state in place of the message,
// the message's place is not known. Then the position is a later one, and all up to it, the
// message included, is delivered here or in that state. Errors are ErrBusy, ErrUnknown,
// ErrClosed, ErrTooLarge, ErrNotMember and ErrRemoved. The payload is copied.
func (n *Node) Broadcast(ctx context.Context, payload []byte) (Position, error) {
	p, err := n.member.Broadcast(ctx, payload)
	return Position(p), err
}

// BroadcastAs is Broadcast for a client that numbers its messages from 1 and wants each
// ordered once, and in turn, even if it tries again after ErrUnknown, here or elsewhere. The
// position is 0 if it was ordered before this call, or is in a state that this member was
// given meanwhile: its place is not remembered, but it is not behind Node.Position of now. The
// ID is of NewClient, here or at another member; else the error is ErrClient. ErrSequence
// means that the number is not the next, or that the client is forgotten: this call has not
// ordered the message, and will not. One that got ErrUnknown before may have.
func (n *Node) BroadcastAs(ctx context.Context, client ClientID, seq uint64, payload []byte) (Position, error) {
	p, err := n.member.BroadcastAs(ctx, machine.ID(client), seq, payload)
	return Position(p), err
}

// NewClient returns an ID for BroadcastAs, at any member: no other client has it. It is good
// as long as fewer than Config.MaxClients others have broadcast since it was made, or since
// the last message under it.
func (n *Node) NewClient() ClientID { return ClientID(n.member.NewClient()) }

// Barrier returns when all messages that were ordered before the call are delivered here, or
// are in a state that this member got. An application that has applied all up to the returned
// position has applied those messages. It takes a place in the order itself: a message without
// payload. Errors are those of Broadcast.
func (n *Node) Barrier(ctx context.Context) (Position, error) {
	p, err := n.member.Barrier(ctx)
	return Position(p), err
}

// Deliver returns the messages from a position on, and waits for those that are not ordered
// yet, until the context ends. An error is the last that it gives: the context's, ErrTrimmed,
// or the one that ended the node. Messages that are not in memory any more are read from disk.
func (n *Node) Deliver(ctx context.Context, from Position) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for m, err := range n.member.Deliver(ctx, broadcast.Position(from)) {
			if !yield(message(m), err) {
				return
			}
		}
	}
}

// Position is that of the last message that was delivered here.
func (n *Node) Position() Position { return Position(n.member.Position()) }

// Snapshot keeps the application's state after a position, as written by a function, in a
// file, in place of the one before. It returns when that is durable. Members that lack
// messages that were trimmed are given it, and so is the application by OpenSnapshot. The
// position is one that was delivered here, and greater than that of the last snapshot; else
// ErrPosition. Close waits for the function to return, and all that it writes from then on
// fails: it must not wait for Close.
func (n *Node) Snapshot(position Position, write func(io.Writer) error) error {
	return n.member.Snapshot(broadcast.Position(position), write)
}

// OpenSnapshot opens the newest snapshot, made here or sent by another member, and returns its
// position. An application begins with it if Deliver returns ErrTrimmed, and goes on from the
// position after it. Position 0 is that of no snapshot, with nothing to read. The state is good
// only if io.EOF comes at its end.
func (n *Node) OpenSnapshot() (Position, io.ReadCloser, error) {
	p, r, err := n.member.Install()
	return Position(p), r, err
}

// Trim forgets the messages up to a position, here. There has to be a Snapshot of that
// position or a later one; else the error is ErrPosition. On disk they go file by file, and
// those that another member is being sent, or needs after the snapshot that it was sent, stay
// until a later Trim: so some may still be delivered.
func (n *Node) Trim(position Position) error { return n.member.Trim(broadcast.Position(position)) }

// AddMember makes another process a member, or says where a member has moved to. The ID is
// one that no member ever had, the address host:port, and no other member's. The process may
// have been started before, with Config.Join, or is started now; until it is there, one more
// of the others has to work for a majority. The position is that of the change. Errors are
// those of Broadcast and ErrChange.
func (n *Node) AddMember(ctx context.Context, id MemberID, addr string) (Position, error) {
	p, err := n.member.AddMember(ctx, machine.NodeID(id), addr)
	return Position(p), err
}

// RemoveMember ends a membership for good; for an ID that is no member's it does nothing. The
// member that was removed gets ErrRemoved from all that it does, once the others can do without
// it: a process should go on until then. If it is this one, RemoveMember waits for that. Errors
// are those of AddMember.
func (n *Node) RemoveMember(ctx context.Context, id MemberID) (Position, error) {
	p, err := n.member.RemoveMember(ctx, machine.NodeID(id))
	return Position(p), err
}

// ReplaceMember is RemoveMember of old and AddMember of id in one, so that no majority of
// another size has to be there between the two.
func (n *Node) ReplaceMember(ctx context.Context, old, id MemberID, addr string) (Position, error) {
	p, err := n.member.ReplaceMember(ctx, machine.NodeID(old), machine.NodeID(id), addr)
	return Position(p), err
}

// Joined waits until this node is a member: only one that was started with Config.Join is not
// at once.
func (n *Node) Joined(ctx context.Context) error { return n.member.Joined(ctx) }

// Members returns the members, as far as this one has heard, and where they listen. It is
// empty at one that joins, before it has heard anything.
func (n *Node) Members() map[MemberID]string { return members[MemberID](n.member.Members()) }

// Waiting returns the reason for which nothing can be ordered at present, as far as this member
// knows it. Either the member takes no part yet, or it lacks connections with enough of the
// others for a majority. Nil if it knows of no reason. A Broadcast that waits is not told: it
// may be ordered as soon as the others are there.
func (n *Node) Waiting() error { return n.member.Waiting() }
