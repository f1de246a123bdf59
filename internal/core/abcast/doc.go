// Package abcast orders messages in the same way for all members. It is the atomic
// broadcast of Chandra and Toueg (JACM 43(2), 1996), a sequence of consensus instances,
// over FastCT and leases without clocks (Dutta, Boichat, Guerraoui, "Asynchronous Leasing",
// 4.3). docs/glossary.md defines the terms.
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
//     broadcast, and after the one before it. Every ordered message was broadcast.
//   - Agreement and validity: with a majority that works, members that work deliver all
//     that any member delivered, and all that was broadcast at them.
//   - Positions have no gap, restarts included. After one, the last messages may be
//     delivered again, each at its position: an application that keeps the position with
//     its own state applies each once.
//
// # How
//
// A message is sent to all (Submit), and waits there. Each member proposes its waiting
// messages to the next instance. The FAST coordinator imposes its proposal, which has the
// messages of all others that it has got. Messages travel in the proposals themselves:
// consensus on names of messages alone would lose those that only a crashed member has.
//
// An example: members 1, 2 and 3, and 1 leads with a lease on the instances 1 to 4. Client
// A broadcasts a1 at member 1, and client B broadcasts b1 at member 2. Member 1 has only a1
// when instance 1 begins. It imposes the batch [a1], members 2 and 3 adopt it, and with a
// majority of acknowledgments instance 1 is decided: a1 has position 1. Then b1 has reached
// member 1, instance 2 is decided as [b1], and b1 has position 2. Member 2 had heard
// nothing for a while and sent b1 again, so instance 3 may contain b1 a second time. The
// order expects b2 of client B, so every member skips it, and position 3 goes to the next
// message. If member 1 now dies, its lease on instance 4 is of no use. Members 2 and 3
// suspect it and decide instance 4 in NORMAL mode; the trusted member then asks for a lease
// from instance 5 on.
//
// Reliable broadcast is lazy. The sender repeats a message until it is ordered; others pass
// it on only if it is not ordered for Config.Relay. If the sender crashes and no other
// member has the message, no member delivers it, nor the client's later messages: those are
// dropped after Relay.
//
// A client is an ID that numbers its messages from 1. An instance's batch orders, of each
// client, the message after its last, and nothing else. So exactly-once and the turn of a
// client's messages follow from the order itself, at all members alike, and are in the
// state that a late joiner is given.
//
// The order remembers the Config.Clients clients that were ordered last. It never orders a
// forgotten client again, however late its messages come. A client's ID contains the
// position since which it exists ([NewClient]). The order keeps a horizon: the position of
// the last message of the client that it forgot last. An ID from before the horizon without
// a session may have been forgotten, and is passed over; one from behind it cannot have
// been. So ErrSequence is exact: the message is not ordered by this Broadcast, and will not
// be. Only a member that started from another's state may not know the fate of a message of
// a client without a session there: it reports [Forgotten]. A forgotten client needs a new
// ID.
//
// A member without messages takes part in the instances of others, with an empty batch if
// need be. For one message it begins a few instances in vain, and then waits until it has
// sent the message again. Otherwise a message that the coordinator lacks would keep all
// members busy with empty instances.
//
// # Beside the paper
//
//   - With Config.Direct a message goes at first only to the member that leads, and the
//     others begin no instance for it. That holds for as long as that member's proposals
//     are decided, in FAST mode. NORMAL mode needs proposals of a majority: then all get
//     the message, as in the paper.
//   - While instances are undecided, another is begun only if as much waits as they have:
//     under load batches are few and large.
//   - Batches are bounded in bytes and number; so is what waits, of this member's clients
//     (ErrBusy) and of others' (dropped, and sent again).
//   - Config.Pipeline instances may be undecided at a time. In the paper it is one.
//   - A member's owner trims its decisions ([Trim]): the owner has the resulting state and
//     gives it to owners that ask. Decisions from there on are kept in memory, and
//     [Machine.Messages] reads them. The state under them follows behind, from what is
//     trimmed; all sessions are copied only for a record or another member
//     ([Machine.Worthwhile]).
//   - Members tell each other how far they are. A member that is behind fetches decisions,
//     or the order's state if those are trimmed. It continues from that state only when its
//     owner has the application's state on disk ([Lacks], [Restored]). It skips instances
//     then, and a majority that includes it must still be able to tell their decisions.
//   - After a restart all instances that the log knows of are decided again before new
//     ones: their decisions may have been delivered, and the records lost.
//
// # Durable
//
// Records are those of consensus and leases, and Base. Adopting a proposal is the one
// forced write of a member in an instance, and a lease one in λ instances.
//
// # Members that come and go
//
// A [Change] is a message like any other, and has its position. The instance that orders it
// is the last of its epoch. The next one is the first instance of the next epoch, among the
// new members, which need not overlap with the old ones. An epoch has a consensus and
// leases of its own, named by its first instance ([In], [Group]). Messages, adoptions,
// permissions and leases of one epoch count in no other. So the old majority decides up to
// the change, the new one behind it, and no majorities of two epochs have to intersect.
//
// With a pipeline, instances behind the change may be decided in the old epoch. They are
// void: each member finds that from the order, and none has delivered them, since
// instances are delivered in turn. Their messages are proposed again. Raft-like systems
// let a change count a fixed number of instances later instead, and leases would have to
// end there; a barrier, with nothing under way while a change is, would cost a pause. This
// costs at most Config.Pipeline-1 instances for each change.
//
// A member that has begun an epoch takes no part in the old one any more, as if it had
// crashed there. It tells decisions to members that are behind. A newcomer is given the
// state and the decisions since, and has all that on disk before anybody counts on it
// ([Started], Status.Began). A member that was removed goes on telling until a majority of
// the new ones has begun (Established): until then it may be the only one that knows how
// the old epoch ended. IDs do not return, so that nobody takes a late message for another
// one's, and a directory that was removed stays removed.
//
// Where founders are is not agreed: each has that from its own configuration, where one
// place may be spelled in different ways ([Group].Configured). It becomes agreed when a
// Change names it. So whether a Change changes anything, and whether another member is at
// its address, is judged from what Changes have named alone, and the same at all members.
// The alternative is to compare the founders' addresses when members meet, and to refuse
// differing ones. It would take a digest in each log and each greeting, none at members
// that join, and stop groups whose spellings do no harm. A member that starts from
// another's state keeps its own spellings.
//
// Adding a member to a group of one, or replacing most of a group at once, means waiting
// for the new members: they are the majority, or needed for it.
//
// # Left out
//
// Members that lie. A bound on how long a Broadcast takes: there is none without clocks.
package abcast
