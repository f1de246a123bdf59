// Package asynclease grants leases without any clock: P. Dutta, R. Boichat and
// R. Guerraoui, "Asynchronous Leasing". A lease is the exclusive right to an interval
// of positive integers, say of numbers of consensus instances, and nothing in it says
// when it ends in time.
//
//	m, err := asynclease.New(asynclease.Config{ID: 1, Members: ids, Life: life, Retry: retry}, records)
//	m.Step(now, asynclease.Ask{ID: 7, Interval: asynclease.Interval{First: 1, Last: 100}})
//	rd := m.Ready()                    // Sends: Lease to all members
//	…                                  // Outcomes: Verdict{ID: 7, Granted: true}
//	m.Step(now, asynclease.Return{ID: 7, From: 60})
//
// Each member is both: an acceptor, and a process that asks. [Machine] is a
// machine.Machine; package internal/lab/asyncleasesim has worlds for it, package abcast uses it.
//
// # What it promises (section 2)
//
//   - At most once: of two invocations with intervals that overlap, at most one is
//     ever granted, whatever crashes, and however often somebody recovers.
//   - Mandatory: an invocation is refused only if another one with an interval that
//     overlaps was made, or if it reaches below the floor (see Forget).
//   - Wait-free: with a majority of members that work and links that are fair, a member
//     that asks and does not crash is answered.
//
// # How (Figure 2)
//
// An acceptor records which invocation it has permitted which interval. If it is asked for
// an interval of which it has permitted nothing, it marks the interval and acknowledges;
// otherwise it refuses. The asker has the lease if the first majority of answers are
// acknowledgments. Two majorities share an acceptor, which acknowledges only one of two
// intervals that overlap (Lemma 1). A refusal comes from an acceptor that another member has
// asked (Lemma 2).
//
// An example with the members 1, 2 and 3: member 1 asks for [1,100] and member 2 for
// [51,150]. Acceptors 1 and 3 meet the first question first and acknowledge it; acceptor 2
// meets the second question first. If the answers of 1 and 3 reach member 1 first, it has
// the lease. Member 2 gets at most one acknowledgment, is refused, and gives back its mark
// at acceptor 2. If the answers of 1 and 2 reach member 1 first, it is refused as well.
// That costs a try and no safety.
//
// # Where the text is mended
//
//   - Two intervals overlap if s <= e' and s' <= e (F1). As printed, [5,6] does not
//     overlap [1,10], and mandatory leasing would contradict at-most-once leasing.
//   - Invocations are told apart by node, life and number, not by their arguments (F2,
//     F3, F5): a process that asks twice for the same interval has made two invocations.
//   - A verdict is kept by invocation and given again when a Lease is repeated (F6): an
//     acceptor that found its own mark would refuse what it has granted. They are
//     forgotten when the process that asked says that it has what it needs.
//   - The handler's state is local and the interval is one entry, not e-s+1 of them (F4).
//   - A refusal marks nothing (F7). Lemma 1 does not need it, and with it two racers
//     would spoil the interval for all. Config.MarkRefused has it as printed.
//
// # Beside the paper
//
//   - Crash-recovery. A permission is durable before it is acknowledged: footnote 3. The
//     process that asks keeps nothing: a lease does not outlive its crash, and nobody is
//     granted its interval again. Config.Volatile is the crash-stop algorithm of Figure 2;
//     a program that sets it must never start a member twice.
//   - Lossy links. Asking is repeated to those that have not answered, after Config.Retry
//     and then after longer and longer.
//   - The tail of a lease may be given back. At-most-once then holds for the part that was
//     kept. The machine itself gives back a refused interval as a whole. Losing a Give is
//     harmless: then those integers are nobody's.
//   - A floor. A member that needs no leases below some integer says so (Forget). Acceptors
//     that know the floor refuse requests below it and keep entries only above it. Memory
//     is then some entries per member.
//   - A refusal says how far it reaches, so that a member that asks for consecutive
//     integers can spare questions that would be refused as well. It is a hint.
//
// # Assumptions
//
// A majority of the members works eventually. Config.Life grows with each start of a
// member, and records that were reported durable are there at the next start. Members are
// honest. A message that no honest member can send is dropped, and Check returns the
// reason. Time plays no part but for Retry.
//
// # Left out
//
// Waiting for a majority of acknowledgments while more answers may come: it would be
// refused less often and is not wait-free. Changing the members: a group is fixed, and
// another group needs a lease object of its own, as package abcast makes for each epoch.
package asynclease
