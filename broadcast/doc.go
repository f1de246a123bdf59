// Package broadcast is atomic broadcast for programs: messages that all members of a
// group get in the same order, durably, without a leader to find and without a
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
//	n.Snapshot(position, func(w io.Writer) error { … })   // the state after position …
//	n.Trim(position)                                      // … in place of what led to it
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
//   - The context's own error: it had ended before. Nothing was sent.
//
// BroadcastAs takes a client's ID, which NewClient makes, and the message's number, from 1.
// The same number is ordered once, at whichever member and however often it is broadcast.
// Of as many clients as Config.Clients it is remembered how far they are; who was not
// heard of for so long that he is forgotten gets [ErrSequence], and nothing of his is ordered
// any more: he goes on with a new ID, unless what he broadcast last may be ordered.
//
// # Reading
//
// Deliver is a loop that waits for more at the end. A slow one holds back nobody: what is
// ordered is kept in memory up to Config.MemoryBytes, and on disk until Trim. A position
// that is trimmed gives [ErrTrimmed]; then Install has the state to begin with, which
// another member may have sent.
//
// A member that is behind is sent what it lacks by any other: messages as far as they are
// kept, else the newest snapshot and what follows it. Until then it delivers what it has.
// Who sends trims nothing of what follows until the other has asked for it, or has not for
// ten times Config.Timeout: else a state that takes longer to send than applications take to
// their next Trim would be sent for ever.
//
// A start reads what may not be in the history yet, about Config.MemoryBytes, and both ends of
// the history: it takes no longer for what was kept longer. So damage in the middle of a history
// is found, and told, by who reads there: Deliver, here, or who wanted it sent, who asks another
// member.
//
// # Failures of others
//
// A process that dies closes its connections: it is suspected at once. One that hangs
// or is cut off is suspected after a silence of Config.Timeout; or of more, up to 64 times
// that, if it was suspected wrongly before: each time doubles what it takes, for that member
// in the eyes of the one that was wrong. It is halved again behind a time in which no silence
// of that member was longer than the half, at first 64 times Config.Timeout and longer after
// each mistake. A suspicion that is wrong costs time and no message.
//
// # Leases
//
// A leader orders in three steps and not four while it has a lease for the next instances of
// consensus; if it dies, those of the lease that are left take the longer way. So for how
// many it asks is a trade: Config.Lambda at most, fewer after refusals, or always as many
// (Config.Fixed). `tenure-lab figure5` counts both sides of it.
//
// # Failures of one's own machine
//
// If the log cannot be written or synced the node ends: what waits gets ErrUnknown, all
// that comes later and Deliver get the log's error (wal.ErrFailed), and connections close,
// so that the others go on at once. Nothing that may not be durable was acknowledged. The
// process should end, and can start again once the disk is well. A clock that goes back
// ends the node, too.
//
// # Duties
//
// A directory belongs to one member, and its contents to the group for good: a member
// that lost it must not come back under the same ID, for it has forgotten what it
// acknowledged. Members note which directory each of them has, in which life, and how far it
// was. One that comes back with another directory, an empty one too, or an older copy of its
// own, is not listened to, and ends with [ErrForgotten]. So at the first start of a group each
// founder waits until more than half of the others have noted its directory: of three founders
// all have to be there once; afterwards a majority is enough. Until then the log says once a
// minute which others have not noted it. Members cannot notice the loss of
// something that none of those present has heard of: a copy that is a heartbeat older, or one that
// only members know which are down. Members also compare digests of what they have ordered: who contradicts more than half
// of the others ends with [ErrOrder]. A group of one has nobody to ask. The same IDs in Members everywhere at the first start, and the same Group,
// Clients, Plain and Paper for good: members that differ in those four refuse each other, and
// log it. Where the founders are may be spelled in different ways.
// What members say counts with a number that they tell only those that they dial, so that who
// merely reaches the port speaks for nobody. Who can read what is sent, or takes over a member's
// address, can, unless there is TLS.
//
// # Members that come and go
//
//	n.AddMember(ctx, 4, "d:7000")       // at any member; 4 runs with Config.Join
//	n.ReplaceMember(ctx, 4, 5, "e:7000")
//	n.RemoveMember(ctx, 1)
//
// A change is a message with a position, and Deliver shows it (Message.Members). All go over
// to the new members there. The log keeps who they are and where: Config.Members is for the
// first start, and what it says later does no harm. A new member is sent the last snapshot and what followed, and can
// broadcast when Joined returns. One that was removed gets [ErrRemoved] as soon as the
// others can do without it, or, when it comes back from being away, as soon as most of the
// others that it knows say so; IDs do not return. An
// address is changed by AddMember with the new one. Who is away while all the others move
// looks for them where they were.
//
// # Figures
//
// Stats has what a member has sent, by what it was for, and how its streams are.
//
// # Left out
//
// Payloads beyond MessageBytesMax. Trimming by itself: without Trim the disk fills up.
package broadcast
