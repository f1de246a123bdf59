// Package quorumlease implements quorum read leases (Moraru, Andersen and Kaminsky: Paxos
// Quorum Leases, SoCC 2014). Any replica of a log may answer linearizable reads from its
// own memory while a majority of the voters has promised to wait for it.
//
// The package assumes only that the log's protocol has terms with at most one leader each,
// as raft and Multi-Paxos do. It knows nothing of the log's contents. It has four parts
// without clocks, goroutines or I/O, and the owner of a replica calls them:
//
//	g := quorumlease.NewGrantor(cfg, now)   // at each voter: the promises it gave
//	h := quorumlease.NewHolder(cfg)         // at each member: the promises it has
//	var l quorumlease.Ledger                // at the leader: the released entries
//	s := quorumlease.NewStalls(cfg)         // at the leader: the holders that delay writes
//
//	send(voters, h.Ask(now))                // a Request, four times a TTL
//	p, ok := g.Grant(now, from, request, log)
//	h.Promised(from, p, log)
//	clock < h.Until(members)                // the lease is active
//
//	// with each acknowledgment of the log, made when the entries were put into it:
//	holders, everyone := g.Holders(now)
//	send(leader, Report{…, Holders: holders, Everyone: everyone})
//	l.Report(from, report)
//	l.Release(commit)                       // visible to everybody up to here
//
// docs/glossary.md defines the terms. docs/rules.md defines the rules R1 to R31 and Q-1 to
// Q-7, with the planted bugs that break each of them. This package keeps R1, R3 to R6, R10,
// R14, R15, R21, R23 and R31. The owner of the parts keeps the others; package replica does.
//
// # The rule
//
// A *promise* binds a voter, its grantor, to a member, the holder. While it lasts, the grantor
// names the holder in each report of the entries that it acknowledges. An entry is *released*
// when clients may be answered and any member may show it. That takes two things (R1): the
// entry is committed, and a majority of the voters *vouches* for it. A voter vouches for an
// entry when it has the entry itself, and every holder that its report names and that holds a
// key of the entry has it too.
//
// A member that reads under a lease has promises of a majority. A majority has vouched for
// each released entry. The two majorities share a voter, and for that voter there are three
// cases:
//
//   - It had promised before it reported the entry. Then its report named the holder, and
//     the holder has the entry.
//   - It promised after it had reported the entry. Then the promise is stamped with a place in
//     its log at or behind the entry, and counts only once the holder's log has reached it (R5).
//   - Its promise had run out when it reported. Then the read was before the entry was released.
//
// A released entry stays released under every later leader. A committed entry stays in the log,
// a holder keeps the committed entries that it has acknowledged, and a later promise is
// stamped behind them. So old news of a release is still true, and votes need not know of leases.
//
// # An example
//
// A leads B and C in term 1, the TTL is 200 ms, and every log ends at entry 7.
//
//  1. At 0 ms C asks A and B. Each log ends at 7, so both promise for 200 ms with the stamp
//     (1, 7). C's log has reached 7, so both promises count. C believes in them until 198 ms by
//     its own clock: one hundredth less, since clocks may differ in rate (R10). A grantor is
//     bound until 210 ms after it got the request: one hundredth more, and at least 10 ms.
//  2. At 50 ms a client writes k=2 at A, which becomes entry 8. A and B put it into their logs
//     and flush it. Both report "up to 8, bound to C". Entry 8 is committed.
//  3. C has not acknowledged entry 8, so neither A nor B vouches for it. It is not released,
//     and the client waits. C still reads k=1, and nobody has seen k=2.
//  4. At 60 ms C receives entry 8 and says so. From then on its own reads of k wait until it
//     knows that entry 8 is released. Now A and B vouch: 2 of 3 voters. The leader releases
//     entry 8, and the client is answered.
//  5. Had C died at 55 ms, its promises would run out at A and B by 210 ms after the last
//     request. The next reports name nobody, and entry 8 is released then.
//  6. Suppose that C had lost the message with its promises and asks again at 100 ms, with its
//     log still at 7. Its chain of promises is unbroken, so the stamp stays (1, 7), and
//     entry 8 waits for C as before. Had the chain ended in between, the fresh promises would be
//     stamped (1, 8), and C could not use them before it has entry 8.
//
// # When members come and go
//
// One at a time. A change of the membership is an entry that waits for every holder, whatever
// it holds. The next change is proposed after its release, by a leader that has had an entry
// of its own term released before. So at most two [Memberships] count, and any majority of
// the one shares a voter with any majority of the other.
//
// For that reason an entry up to a change, and the change itself, may be released by a majority of either
// membership. A member that reads without the change knows only the voters before it and has promises of
// a majority of them. One of those is among the voters that vouch. Requiring both majorities would be no
// safer. It would also stop where a cluster of one grows and the newcomer has not been started. And it
// would stop where one of two members was removed, is gone, and was bound to others in its last report.
//
// An entry behind a change needs the majority behind the change (R23). By then no member reads
// without knowing the change, and none ever will. Each voter that vouched for it either named
// the holder, which has the change, or stamps its promise with a place behind the change.
//
// The newest majority would do for a reader, too, by the same argument. A reader still needs
// both majorities while it does not know that the change is released. That costs nothing, and
// its lease then rests on no other rule.
//
// A removed replica stays a holder until it has the entry that removes it. Then it stops reading
// and gives its promises back. If it never gets the entry, its promises run out, because no member
// that has the entry renews them. Members that have the entry do not count promises of a
// removed grantor. Promises need no epoch that tells one membership of a member from another:
// a removed ID is never added again.
//
// # Assumptions
//
//   - Clocks count suspend and differ in rate by less than one in a hundred, each way.
//     They need not agree on the time. A virtual machine that is copied, or frozen with
//     its clock, breaks this until it learns the time again; see below.
//   - A member's boots grow, and no two of its lives overlap. EarlierTTL is durable
//     before a promise of that length is made.
//   - Messages may be lost, repeated, late and out of order; they are not forged.
//   - A committed entry is in the log of each later leader, and is never replaced at a member
//     that acknowledged it.
//
// # Clocks that break
//
// A process that was stopped, or a machine that was suspended, finds its leases over, since
// the clock went on. A clock that goes back ends its member. Beyond that a member compares
// its clock with the machine's other clocks, ten times a second or more (package clock). It
// doubts its clock for a second in these cases:
//
//   - The clock stood still or jumped: the time of day moved apart from it. A virtual machine
//     that was frozen with all its clocks notices only this, and only when the time of day is
//     set right afterwards. Until then it may answer reads with the state from before the
//     freeze, for up to the rest of a lease. No process can prevent that from inside: give such
//     machines a clock that goes on, or set the policy to off. Setting the time of day by hand
//     also causes doubt, and costs a second of local reads.
//   - The clock has a wrong rate: more than one in two hundred off, compared with one that NTP
//     does not correct. Chrony corrects large errors by up to one in twelve unless maxslewrate
//     sets less. Until that shows, a clock is off by 9 ms, and grantors wait 10 ms longer
//     than they promise. A machine whose crystal is off by so much is in doubt for ever,
//     even though NTP sets its time right.
//
// In doubt a holder gives its promises back, and its reads go by way of the leader. A grantor
// in doubt may have taken promises for over that still bind it. So its promises last twice as
// long, and those that ran out since the last comparison of clocks are made anew, once. That
// covers a clock that jumps once within a promise, or goes up to twice too fast.
// So reads are slower, and writes that meet a holder's death wait for up to three promises'
// length, however long the doubt lasts. Clients' leases are not touched. A leader's clock that
// runs ahead ends them early, and their holders have to allow for that.
//
// # Costs
//
// A write waits for every live holder of its keys, in place of a majority. A write waits for a
// dead holder until its promises have run out: TTL and a hundredth. For a holder that the leader
// cannot hear it waits half a TTL more, and for two messages. A holder asks all voters four
// times a TTL, and each answers.
//
// # Differences from the paper
//
//   - Holders ask for promises. In the paper grantors push them, and need a guard and a
//     grace period to bound their uncertainty: nine seconds from a death to the next
//     write, where this package takes a TTL. The lab's package pushlease implements the
//     paper's way, to compare with.
//   - A promise names no keys. The owner says by entries of the log which member holds which
//     keys, so a new configuration ends no lease (R12).
//   - The paper's replica waits after a restart before it accepts anything (t_wait). Here a
//     restarted grantor counts as bound to everyone (R14), and votes and acknowledges meanwhile.
//   - The paper commits an entry when the holders have accepted it. Here the log commits as
//     before and releasing comes after, so that the log's protocol does not change.
package quorumlease
