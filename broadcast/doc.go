// Package broadcast is atomic broadcast for programs: messages that all members of a
// group get in the same order, durably, without a leader to find and without a
// clock to trust.
//
//	n, err := broadcast.Start(broadcast.Config{
//		ID: 1, Group: 42, Members: map[broadcast.MemberID]string{1: "a:7000", 2: "b:7000", 3: "c:7000"},
//		Listener: ln, DataDir: "/var/lib/counter",
//	})
//	position, err := n.Broadcast(ctx, []byte("+1"))       // it is ordered, and durable
//	for m, err := range n.Deliver(ctx, from) {            // from := what was applied, plus 1
//		…                                             // m.Position, m.Payload
//	}
//	n.Snapshot(position, func(w io.Writer) error { … })   // the state after position …
//	n.Trim(position)                                      // … in place of what led to it
//
// # Promises
//
// All members deliver the same messages at the same positions, 1, 2, 3 and so on. When
// Broadcast has returned, the message is on the disks of a majority. A member that crashed
// goes on where it was; an application that goes on after its own position applies each
// message once. While a majority works, everything goes on; without one nothing is lost and
// nothing moves.
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
// The same number is ordered once, at any member and however often it is broadcast. The group
// remembers the last numbers of Config.MaxClients clients. A client that was silent for so
// long that it is forgotten gets [ErrSequence], and nothing of its is ordered any more. It
// goes on with a new ID, unless its last message may still be ordered.
//
// # Reading
//
// Deliver is a loop that waits for more at the end. A slow one holds back nobody: ordered
// messages are kept in memory up to Config.MemoryBytes, and on disk until Trim. A position
// that is trimmed gives [ErrTrimmed]; then OpenSnapshot has the state to begin with, which
// another member may have sent.
//
// Any member can send the rest to a member that is behind: the messages as far as they are
// kept, else the newest snapshot and the messages after it. Until then that member delivers the
// messages that it has. The sender keeps the messages after the snapshot until the other has
// asked for them, or has asked for nothing for ten times Config.SuspicionTimeout. Otherwise a
// state that takes longer to send than applications take to their next Trim would be sent for
// ever.
//
// A start reads what may not be in the history yet, about Config.MemoryBytes, and both ends of
// the history: a longer history does not make it slower. So damage in the middle of a history is
// found by its readers: Deliver here, or a member that is sent it.
//
// # Failures of others
//
// A process that dies closes its connections: it is suspected at once. One that hangs or is
// cut off is suspected after a silence of Config.SuspicionTimeout. A member that has suspected
// another wrongly waits twice as long for the other from then on, up to 64 times the timeout.
// The wait is halved after a time in which no silence was longer than the half: that time is
// 64 times the timeout at first, and longer after each mistake. A wrong suspicion costs time
// and no message.
//
// # Failures of one's own machine
//
// If the log cannot be written or synced, the node ends. Broadcasts under way get ErrUnknown,
// and later calls and Deliver get the log's error. Its connections close, so that the others go
// on at once. Nothing that may not be durable was acknowledged. The process should end, and can
// start again once the disk is well. A clock that goes back ends the node, too.
//
// # Duties
//
// A directory belongs to one member, and its contents to the group for good. A member that lost
// it must not come back under the same ID, because its acknowledgments are lost, too. Members
// note which directory each of them has, in which life, and how far it was. A member that comes
// back with another directory, an empty one too, or an older copy of its own, is not listened
// to, and ends with [ErrForgotten].
//
// So at the first start of a group each founder waits until more than half of the others have
// noted its directory. Of three founders all have to be there once; afterwards a majority is
// enough. Until then the log says once a minute which others have not noted it. Members cannot
// notice the loss of something that none of those present has heard of: a copy that is a
// heartbeat older, or one that is known only to members that are down. Members also compare
// digests of the messages that they have ordered: one that contradicts more than half of the
// others ends with [ErrOrder]. A group of one has nobody to ask.
//
// Founders have the same IDs in Members at their first start. Group and MaxClients are the same
// at all members for good: members that differ in them refuse each other, and log it. The
// addresses of the founders may be spelled in different ways.
//
// Messages between members carry a number that each tells only to those that it dials. So a
// stranger that merely reaches the port speaks for nobody. Without TLS, one that can read the
// traffic or take over a member's address can.
//
// # Members that come and go
//
//	n.AddMember(ctx, 4, "d:7000")       // at any member; 4 runs with Config.Join
//	n.ReplaceMember(ctx, 4, 5, "e:7000")
//	n.RemoveMember(ctx, 1)
//
// A change is a message with a position, and Deliver shows it (Message.Members). All go over
// to the new members there. The log keeps the members and their addresses: Config.Members is
// for the first start, and does no harm later. A new member is sent the last snapshot and the
// messages after it, and can broadcast when Joined returns. One that was removed gets
// [ErrRemoved] as soon as the others can do without it, or, when it comes back from being away,
// as soon as most of the others that it knows say so. IDs do not return. An address is changed
// by AddMember with the new one. A member that is away while all the others move looks for them
// where they were. A member does not listen to one that joined while it was away: for all that it
// knows, that is a stranger. It hears of the change from any other member. If none of those that
// it knows is up, it waits for one of them, or until it is started again with Config.Members that
// name the one that joined. Its log tells of connections by one that is not known here.
//
// # Left out
//
// Payloads beyond MaxMessageBytes. Trimming by itself: without Trim the disk fills up.
package broadcast
