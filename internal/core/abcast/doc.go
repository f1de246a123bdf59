// Package abcast orders messages, the same way for all members: the atomic broadcast of
// Chandra and Toueg (JACM 43(2), 1996), a sequence of consensus instances, over FastCT
// and leases without clocks (Dutta, Boichat, Guerraoui, "Asynchronous Leasing", 4.3).
//
//	m, err := abcast.New(abcast.Config{Consensus: fastct.Config{…}, Life: life, …}, records)
//	m.Step(now, abcast.Broadcast{Message: abcast.Message{Client: c, Seq: 1, Payload: p}})
//	rd := m.Ready()       // Outcomes: Delivered{Position: 1, …}, at all members
//
// [Machine] is a machine.Machine. [Consensus], which it uses, is package fastct over
// package asynclease. Package internal/lab/abcastsim judges both in worlds where everything fails.
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
// has the message, nobody delivers it, nor what the client has broadcast behind it: that
// is dropped after Relay.
//
// A client is an ID that numbers his messages from 1. An instance's batch orders,
// of each client, the message after his last, and nothing else. So exactly-once and
// the turn of a client's messages follow from the order itself, at all members alike,
// and are in the state that a late joiner is given.
//
// The Config.Clients clients that were ordered last are remembered. Who was forgotten is
// never ordered again, however late his messages come: his ID says since which position it
// exists ([NewClient]), and the order keeps, as its horizon, the position of the last message
// of whom it has forgotten last. An ID from before the horizon without a session may have
// been forgotten, and is passed over; one from behind it cannot have been. So ErrSequence is
// exact: the message is not ordered by this Broadcast, and will not be. Only a member that was
// given another's state may not know what became of a client's message that is in no session
// there: it says [Forgotten]. Who was forgotten needs a new ID.
//
// A member that has nothing to say takes part in what others begin, with an empty batch
// if need be. It begins an instance for a message a few times in vain, and then waits
// until it has sent it again: else a message that the coordinator has not got would keep
// all busy with empty instances.
//
// # Beside the paper
//
//   - With Config.Direct a message goes at first only to the member that leads, and the
//     others begin no instance for it. That is for as long as what that member proposes is
//     decided, in FAST mode. NORMAL mode needs proposals of a majority: then all get the
//     message, as in the paper.
//   - While instances are undecided, another is begun only if as much waits as they have:
//     under load batches are few and large.
//   - Batches are bounded in bytes and number; so is what waits, of this member's clients
//     (ErrBusy) and of others' (dropped, and sent again).
//   - Config.Pipeline instances may be undecided at a time. In the paper it is one.
//   - A member's owner trims for himself ([Trim]): what that led to is his, and he gives it
//     to owners who ask. Decisions from there on are kept in memory, and [Machine.Messages]
//     reads them. The state under them follows behind, from what is trimmed; all sessions are
//     copied only for a record or another member ([Machine.Worthwhile]).
//   - Members tell each other how far they are. Who is behind fetches decisions, and if
//     those are trimmed the order's state. It goes on from that when its owner has what
//     led there ([Lacks], [Restored]), on disk, and not before: it passes over instances
//     then, and a majority with it in it must be able to say what they decided.
//   - After a restart all instances that the log knows of are decided again before new
//     ones: what was decided by them may have been delivered, and its record lost.
//
// # Durable
//
// Records are those of consensus and leases, and Base. Adopting a proposal is the one
// forced write of a member in an instance, and a lease one in λ instances.
//
// # Members that come and go
//
// A [Change] is a message like any other, and has its position. The instance that orders
// it is the last of its epoch; the next one is the first instance of the next epoch,
// among the new members, who need have nothing in common with the old ones. An epoch has a
// consensus and leases of its own, named by its first instance ([In], [Group]): what was
// said, adopted, permitted or granted in one counts in no other. So the old majority
// decides up to the change, the new one behind it, and no majorities of two epochs have to
// intersect.
//
// With a pipeline, instances behind the change may be decided in the old epoch. They are
// void: each member finds that from the order, and none has delivered them, since
// instances are delivered in turn. Their messages are proposed again. Raft-like systems
// let a change count a fixed number of instances later instead, and leases would have to
// end there; a barrier, with nothing under way while a change is, would cost a pause. This
// costs at most Config.Pipeline-1 instances for each change.
//
// Who has begun an epoch takes no part in the old one any more, as if it had crashed
// there; it tells those that are behind what was decided. A newcomer is given the state
// and the decisions since, and has all that on disk before anybody counts on it ([Started],
// Status.Began). A member that was removed goes on telling until a majority of the new ones
// has begun (Established): until then it may be the only one who knows how the old epoch
// ended. IDs do not return, so that nobody takes a late message for another one's, and a
// directory that was removed stays removed.
//
// Where founders are is not agreed: each has that from its own configuration, where one place
// may be spelled in different ways ([Group].Configured). It becomes agreed when a Change names
// it. So whether a Change changes anything, and whether another member is at its address, is
// judged from what Changes have named alone, and the same at all members. The other way would
// be to compare the founders' addresses when members meet, and to refuse those that differ: it
// would take a digest in each log and each greeting, none at members that join, and stop
// groups whose spellings do no harm. Who is given another's state keeps its own spellings.
//
// Whoever wants to add a member to a group of one, or replaces most of a group at once, waits
// for the new ones: they are the majority, or needed for it.
//
// # Left out
//
// Members that lie. A bound on how long a Broadcast takes: there is none without clocks.
package abcast
