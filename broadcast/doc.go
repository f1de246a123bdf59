// Package broadcast is atomic broadcast for programs: messages that all members of a
// fixed group get in the same order, durably, without a leader to find and without a
// clock to trust. It is package abcast with disks, sockets and goroutines around it.
//
//	n, err := broadcast.Start(broadcast.Config{
//		ID: 1, Group: 42, Members: map[machine.NodeID]string{1: "a:7000", 2: "b:7000", 3: "c:7000"},
//		Listener: ln, Dir: "/var/lib/counter",
//	})
//	position, err := n.Broadcast(ctx, []byte("+1"))       // it is ordered, and durable
//	for m, err := range n.Deliver(ctx, from) {            // from := what was applied, plus 1
//		…                                             // m.Position, m.Payload
//	}
//	n.Trim(position, state)                               // a checkpoint
//
// # What it promises
//
// All members deliver the same messages at the same positions, 1, 2, 3 and so on. What
// Broadcast returned for is on the disks of a majority. A member that crashed goes on
// where it was; applying from one's own position on applies each message once. While a
// majority works, everything goes on; without one nothing is lost and nothing moves.
//
// # When a Broadcast fails
//
//   - [ErrBusy]: too much waits. Nothing was sent.
//   - [ErrUnknown]: the context or the node ended while it was under way. It may be
//     ordered yet. To try again without ordering it twice, name it: see BroadcastAs.
//   - [ErrClosed]: the node was closed before. Nothing was sent.
//
// BroadcastAs takes a client's ID and the message's number, from 1. The same number is
// ordered once, at whichever member and however often it is broadcast.
//
// # Reading
//
// Deliver is a loop that waits for more at the end. A slow one holds back nobody: it
// reads from memory what is ordered, and what is ordered stays there until Trim. So
// memory is bounded by whoever trims. A position that is trimmed gives [ErrTrimmed]; then
// Base has the state to begin with, which another member may have sent.
//
// # Failures of others
//
// A process that dies closes its connections: it is suspected at once. One that hangs
// or is cut off is suspected after Config.Timeout. A suspicion that is wrong costs
// time and no message.
//
// # Duties
//
// A directory belongs to one member, and its contents to the group for good: a member
// that lost it must not come back under the same ID, for it has forgotten what it
// acknowledged. The same Members everywhere. Without TLS whoever reaches the port can
// speak for a member.
//
// # Left out
//
// Changing the members; payloads beyond MessageBytesMax; reading the log from disk, so
// that what is not trimmed has to fit into memory.
package broadcast
