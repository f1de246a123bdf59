// Package disklease keeps leases in one shared register, which any number of
// processes that never met may read and write: the algorithms of G. Chockler and
// D. Malkhi, "Light-Weight Leases for Storage-Centric Coordination", International
// Journal of Parallel Programming 34(2), 2006.
//
// # Driving it
//
// A [Lease] is one claim to one lease, a machine.Machine. Its accesses go to the
// register (At 0), directly or through package quorumregister.
//
//	l, err := disklease.New(disklease.Config{ID: random, Holder: "web-3", Term: 15 * time.Second, Delay: 2 * time.Millisecond})
//	l.Step(now, disklease.Acquire{})
//	rd := l.Ready() // Accesses: read the register …
//	…               // Outcomes: Acquired{Token, Deadline}, Renewed, Lost
//	l.Step(now, disklease.Leave{})
//
// It renews by itself. Package internal/holder/storage drives it for real,
// internal/lab/diskleasesim in worlds where everything fails. docs/rules.md defines the
// rules T-1, T-2, T-3 and T-8.
//
// # How it works
//
// Contend is Figure 2. The register names a claim and its timestamp. A contender
// reads, waits for Δ+6δ, and reads again. A living holder would have renewed and so
// changed the timestamp; if it has not changed, the contender writes its own, waits
// for 2δ, and reads whether its own is still there. Δ is how long a lease lasts, δ
// bounds an access to the register. Renewing is Figure 5: read, write, wait 2δ, read;
// or section 7.1, one write, for systems that are known to be stable throughout.
//
// An example with Δ = 15 s and δ = 2 ms: P holds and last wrote timestamp 41 at 0 s. Q
// reads 41 at 1 s and waits. P renews at 5 s with 42, so Q sees news and begins anew. P
// dies at 6 s. If a look showed Q 42 first at 5 s, it is unchanged for Δ+6δ at 20.012 s. Q
// writes its own timestamp, waits 4 ms, reads it back, and holds. If R has read 42 as well
// and writes within the same 4 ms, Q reads R's timestamp and begins anew, and R holds.
//
// The 2δ are tight for safety: of two contenders that read before either wrote, one reads
// the other's. The 6δ are tight for renewal. TestConstants in internal/lab/diskleasesim
// shows both from both sides.
//
// Beyond the paper:
//
//   - Fail-aware. The paper promises nothing while an access takes longer than δ.
//     Three checks after each access make a wrong δ cost liveness and not safety. A
//     write that ends later than 2δ after the read before it claims nothing. The
//     deadline counts from when the write was invoked. A renewal whose write ends
//     after the deadline is a loss. They need an atomic register.
//   - Polling. A contender looks during its wait, too, and counts from the first look
//     that showed what it sees now: takeover within Δ+6δ and a poll.
//   - Release. The released timestamp goes into the claim's own note beside the register,
//     nothing is ever written into the register to free it (T-3): a late release frees
//     nobody newer. A contender that sees the released timestamp in the register need not
//     wait. Only a timestamp that was held, or was written in time, is released. A timestamp
//     that was written too late may cover another claim's record. All contenders have to wait
//     for its end, including its own claim, even if that has been told to leave meanwhile.
//   - Ends. A contender may be told ([Ended]) that the process of a claim does not exist any more, and by
//     which timestamp the claim has held. That is worth what a release of this timestamp is worth, for
//     the same reason: the holder believes no more, and while the register shows a timestamp that was
//     confirmed, nobody else can hold. It must not be said of a timestamp that was written and not
//     confirmed, which may hide another holder, nor while anything acts for the claim. A write that the
//     dead process left on its way has another timestamp, and is waited out. A lock delay is, too.
//     Of a claim that waits it may be said by timestamp 0: its place in the queue is free.
//   - δ travels in the record (T-1). All claims that race have read the same record and use
//     its δ; one that has measured a greater δ writes it, with its claim, for the next. No
//     record has less than the header's, and a deadline allows for no more than that. A
//     store must not forget a record with a greater δ while there is no newer one, because
//     a contender that finds no record takes the header's. Δ is a constant of the header
//     (T-2).
//   - Tokens are the Seq of the version of the winning write. The register never shows a
//     smaller one again, so stuck writes cannot turn tokens back.
//   - Force. A claim takes over from tenures that its Broken names without a wait, by a write and a
//     read-back as from the dead. A renewal of theirs that races with it is another contender: one of
//     the two reads the other's. After that their next renewal finds another's record, and is a loss.
//     Until then, or their deadline, they hold beside the next claim; tokens tell the two apart.
//   - A queue. A claim that waits says so in its note, with a ticket, and lets earlier
//     claims go first while their notes change. That is courtesy: no promise of exclusion
//     depends on it, and a dead waiter costs others Δ/2+6δ.
//
// # A claim's own entry
//
// A claim may find its own timestamp in the register without holding by it. Need it wait
// Δ+6δ for that? It depends on whether the write was in time, that is, ended within 2δ of the
// beginning of the look before it.
//
// In time: no. Nobody holds at the moment when the register shows such an entry. Suppose that
// Q holds and the entry covers its record. Q read its record back before the entry landed.
// Q's write ended 2δ before that, so before the entry's claim began its look. That look would
// have shown Q. And a claim that came to hold after the entry landed has written after it, and the
// register shows that write, or one that has its own wait. So the claim may write again at
// once, if its read-back failed or came too late to hold by. Others may learn it by a release:
//
//   - The claim alone knows of this, and believes no more. An entry of another
//     claim, also of the same process or of the process that ran before, is not its own.
//   - Its next write has another timestamp. If that one is late, it is waited out.
//   - Claims that raced with the entry have read the record before it, and perhaps a lesser δ
//     (T-1). So the claim neither looks again nor releases before the 2δ are over in which it
//     would settle. By then each of those has written, or is late: see the script
//     entry-settles-before-it-is-released.
//   - Nobody shares beside the entry, because it is unconfirmed. So it is in no other claim's
//     record, which could get stuck and bring it back.
//   - Bases that go back may show it again. They may show a released or a free record as well.
//
// Late, or of unknown outcome: yes. P reads that the lease is free, and its write gets stuck.
// Q reads the same, writes, reads itself back and holds. Then P's write lands over Q's record,
// for both were meant to be the next version and P's is the greater, or the register does not
// compare versions. All that is left of Q is what Q believes, for up to Δ. If P went on at
// once, by ignoring its entry or by a release of it, two would hold: see the script
// late-entry-may-hide-a-holder. P could try to learn in several ways that there is no Q:
//
//   - A later look: no. Q's record is gone, and a claim that took a free lease has no note.
//   - Q's next renewal, which gives up: no. Q may be stopped until its deadline.
//   - The token: no. P's entry has the greater version, or the same Seq.
//   - A minority of the bases that still shows Q: only that there is a Q, never that there is none.
//   - The time when P's write ended: it is about when the wait begins anyway.
//   - A note by each contender before it writes: yes, where notes are not lost. It would cost
//     each acquisition another access, in order to make a rare case quick. It is left out.
//
// # Shared holders (section 10)
//
// The paper suggests that readers write a common name. Then no process could tell when the
// last one leaves, which ones renew, or whether a writer slipped in between. Here the
// record lists all holders, each with its Slots, how many it bears. A reader reads, adds
// itself to the list, and holds if the record that it reads back lists its own timestamp
// (T-8). It renews by a beat of its note, a register that it alone writes: two that renewed
// in the record would undo each other's renewals. An entry whose timestamp and beat have
// not changed for Δ+6δ is dead, and the next writer leaves it out.
//
// A reader's entry is open to others only once its claim has confirmed, by its first beat,
// that it holds. For a write that got stuck may come in over a writer that holds. Its claim
// will not confirm it; unconfirmed entries exclude everybody; and by the time one is dead,
// the holder that it covers has lost its lease. (Random worlds found the schedule, seed
// 10017 of the version before: see the script reader-may-hide-a-writer.)
//
// Tokens of claims that share may be handed out in another order than they are
// written, when they come within a few δ of each other. Each is greater than that
// of every exclusive tenure before.
//
// # Assumptions
//
//   - The register is atomic and versioned: a write under a greater version wins,
//     whenever it lands. Notes are written by one claim each.
//   - A claim's ID is used once. A copy of a process (a cloned virtual machine, a
//     restored checkpoint) is two claims under one ID, which nothing here tells apart.
//   - Clocks count suspend and differ in rate from true time by no more than Drift.
//   - All users of a register know the same Term, Delay and Drift.
//   - Nobody acts on a lease after its Deadline. A process that was stopped between a
//     look at the clock and the act needs the resource to check its token.
//
// Nothing is assumed about how long accesses take, for safety. For liveness: that
// from some time on accesses take less than δ, for long enough (◇ND).
//
// # A register that cannot compare versions
//
// Exclusive claims may share a register that shows whatever landed last, such as a block of a
// disk (package internal/host/register/file does that). A write that got stuck may then land over a
// newer record, and costs its holder the lease, never others their safety:
//
//   - It has a time stamp of its own, which no look has seen before, and which no note has
//     released. So each claim that sees it waits Δ+6δ from then on.
//   - Its claim does not come to hold by it: it was lost at its deadline, or refused for being
//     late (fail-aware check 1), or has written again since.
//   - The holder whose record it covers confirmed that at the latest when the write landed. Its
//     deadline is Δ after that, and its next renewal finds another's record and gives up.
//
// Versions and so tokens may go back there. A note of another claim may be lost, which costs
// time.
//
// # Invariants
//
// Checked in internal/lab/diskleasesim, each with mutants: Properties 1.1 (at most one holds;
// of claims that share, no more than each bears) and 1.2 (progress). So are 2.1 (nobody holds
// while another renews) and 2.2 (renewals succeed in stable times). So are also Lemma 3 (of a
// group of writes that nobody follows up, one reads itself back), and that tokens only grow.
//
// # Costs
//
// In accesses to the register (R, W) and its notes (N), and the time that passes:
//
//	acquire, free or released     2R + 1W          2δ and the accesses
//	acquire, contended            + 1N, and polls
//	take over from the dead       + polls          Δ + 6δ + poll after its last write
//	renew                         2R + 1W          2δ and the accesses
//	renew, shared                 1R + 1N
//	release                       1N
//
// A record is at most 2,800 bytes. That bounds how many can share: about 60 with
// holders of 20 bytes; more wait.
//
// # Leader and consensus (sections 8 and 9)
//
// [Oracle] is Figure 7: one claim after the other, so that some time after the system is
// stable one process leads and all others know that they do not. Before that, two may
// believe it at once if their clocks break the assumptions. [Consensus] (Figure 8) bears
// that: it agrees at all times and needs the leader only to come to an end. Its safety
// comes from a ranked register, which [RRRead] and [RRWrite] use under ranks. Every read of
// a greater rank sees a committed write, and a write aborts only for a greater rank.
// [RankedOverBases] makes it of stores that read and modify in one step. [RankedOverNotes]
// makes it of a register that is only read and written, by Disk Paxos. There each writer's
// block is in its note, so that the number of processes need not be known. Beyond the
// paper: the decision is written under a rank last, which is the register's data, so that
// processes that never lead learn it, too. Such a register asks more of a store than a
// lease does: a note there is the only witness of what may have been decided, and no
// waiting makes up for one that was forgotten.
package disklease
