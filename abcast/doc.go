// Package abcast orders messages, the same way for all members: the atomic broadcast of
// Chandra and Toueg (JACM 43(2), 1996), a sequence of consensus instances, over FastCT
// and leases without clocks (Dutta, Boichat, Guerraoui, "Asynchronous Leasing", 4.3).
//
//	m, err := abcast.New(abcast.Config{Consensus: fastct.Config{…}, Life: life, …}, records)
//	m.Step(now, abcast.Broadcast{Message: abcast.Message{Client: c, Seq: 1, Payload: p}})
//	rd := m.Ready()       // Outcomes: Delivered{Position: 1, …}, at all members
//
// [Machine] is a machine.Machine. [Consensus], which it uses, is package fastct over
// package asynclease. Package sim/abcastsim judges both in worlds where everything fails.
//
// # What it promises
//
//   - Total order: at each position all members deliver the same, crashed ones included.
//   - Integrity: a client's message is ordered once, however often and wherever it was
//     broadcast, and after the one before it. What is ordered was broadcast.
//   - Agreement and validity: with a majority that works, members that work deliver all
//     that any member delivered, and all that was broadcast at them.
//   - Positions have no gap, restarts included. After one, what was delivered last may be
//     delivered again, each message at its position: an application that keeps the
//     position with its own state applies each once.
//
// # How
//
// A message is sent to all (Submit), and waits there. Each member proposes what waits to
// the next instance. The FAST coordinator imposes its proposal, which has the messages
// of all others that it has got. Messages travel in the proposals themselves: consensus
// on names of messages alone would lose those that only a crashed member has.
//
// Reliable broadcast is lazy. The sender repeats until a message is ordered; others
// pass it on only if it is not ordered for Config.Relay. If the sender crashes and nobody
// has the message, nobody delivers it.
//
// A client is a random ID that numbers his messages from 1. An instance's batch orders,
// of each client, the message after his last, and nothing else. So exactly-once and
// the turn of a client's messages follow from the order itself, at all members alike,
// and are in the state that a late joiner is given. The Config.Clients clients that were
// ordered last are remembered; who was forgotten needs a new ID.
//
// A member that has nothing to say takes part in what others begin, with an empty batch
// if need be. It begins an instance for a message a few times in vain, and then waits
// until it has sent it again: else a message that the coordinator has not got would keep
// all busy with empty instances.
//
// # Beside the paper
//
//   - Batches are bounded in bytes and number; so is what waits, of this member's clients
//     (ErrBusy) and of others' (dropped, and sent again).
//   - Config.Pipeline instances may be undecided at a time. In the paper it is one.
//   - A member's owner trims for himself, and says what his state is in place of what is
//     forgotten. Decisions from there on are kept in memory, and [Machine.Messages] reads
//     them.
//   - Members tell each other how far they are. Who is behind fetches decisions, and if
//     those are trimmed that state, and the order's under it.
//   - After a restart all instances that the log knows of are decided again before new
//     ones: what was decided by them may have been delivered, and its record lost.
//
// # Durable
//
// Records are those of consensus and leases, and Base. Adopting a proposal is the one
// forced write of a member in an instance, and a lease one in λ instances.
//
// # Left out
//
// Changing the members: leases and instances would have to belong to an epoch each.
// Members that lie. A bound on how long a Broadcast takes: there is none without clocks.
package abcast
