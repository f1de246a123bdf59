// Package quorumlease is quorum read leases (Moraru, Andersen and Kaminsky: Paxos
// Quorum Leases, SoCC 2014): any replica of a log may answer linearizable reads from
// its own memory, while a majority of the voters has promised to wait for it.
//
// It knows nothing of the log's protocol but that it has terms with a leader each, as
// raft and Multi-Paxos have; and nothing of what the log is about. It is four parts
// without clocks, goroutines or I/O, which the owner of a replica calls:
//
//	g := quorumlease.NewGrantor(cfg, now)   // at each voter: promises given
//	h := quorumlease.NewHolder(cfg)         // at each member: promises got
//	var l quorumlease.Ledger                // at the leader: what is released
//	s := quorumlease.NewStalls(cfg)         // at the leader: who holds it up
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
//	l.Release(commit)                       // seen by everybody up to here
//
// # The rule
//
// An entry is released, that is answered and visible to anybody, when it is committed
// and a majority of the voters vouches for it: each of them has it, and so has every
// holder that it is bound to by a promise, if the holder holds what the entry touches
// (R1). Whoever reads under a lease has promises of a majority too; one voter is in
// both. That one either had promised before it reported the entry, and so named the
// holder, which has the entry; or it promised afterwards, and the promise is stamped
// with a place in the log behind the entry, which the holder must have reached before
// the promise counts; or its promise had run out, and the read was before.
//
// What is released stays so, whoever leads: an entry that is committed stays in the log, a
// holder keeps what it has acknowledged of it, and what is promised later is stamped
// behind it. So anyone may act on old news of it, and votes need not know of leases.
//
// # The rules
//
// Tests call them by these numbers, and so do the mutants that break them one by one
// (internal/lab/replicasim/testdata/mutants/README.md); Q are ways to get a rule wrong. This package
// keeps
//
//	R1       Ledger.Limit: a majority vouches, holder by holder.
//	R3       Grant and Holders speak of one moment; a Report is made when its entries
//	         are put into the log, not when they are durable.
//	R4, Q-5  A Report speaks for itself: it is never paired with what another said.
//	R5, Q-1  A promise that is not a renewal is stamped, and all renewals of its
//	         unbroken chain repeat the stamp. It counts for who knows its term: so none
//	         that counts for the leader of a term was first made in a later one.
//	R6       A majority of the voters, the holder itself included if it is one.
//	R10, Q-6 The holder counts from when it sent its request, the grantor from when it
//	         had it; the promise carries its length. Each allows for clocks whose
//	         rates are one in a hundred off.
//	R14      A grantor that restarted counts as bound to everyone, for as long as any
//	         earlier promise may last; it votes and acknowledges meanwhile.
//	R15, Q-4 A life of a member is over when a later one is heard of. What a life has
//	         only received dies with it.
//	R21      A holder that holds up what is committed gets no more promises.
//	R23      Until a change of the membership is released, Until needs a majority of
//	         the voters before it and of those behind it; see below.
//	R31      A holder is waited for until it has received an entry, not until it has
//	         flushed it.
//
// and whoever owns the parts has to keep the others; package replica does:
//
//	R2       Nobody sees an entry before it is released: no reader, writer or watcher.
//	R7, Q-2  A reader takes a state first and looks at the clock then; and every entry of
//	         its log that touches the keys is released, and in that state.
//	R8       What a member has put into its log is known to its readers before it is
//	         acknowledged, and forgotten when it is replaced.
//	R9       Who does not know whether such an entry is released waits; he does not answer
//	         with what was before it. What a leader keeps is an exception (package replica).
//	R11      Clocks count suspend, and nobody goes by the time of day. Who has reason to
//	         doubt his clock believes in no promise, and keeps his own for longer (Doubt).
//	R12      Another configuration, or policy, lets no lease lapse.
//	R13      An entry waits for the holders under each configuration from the last one
//	         released on. A holder loses keys when the entry that takes them is in its
//	         log, and gets keys when the one that gives them is committed.
//	R16      Of what came in a snapshot, or was there at a restart, nobody reads before
//	         all of it is known to be released.
//	R17      A new leader releases by reports of its own term only, and nothing before an
//	         entry of that term.
//	R18      Nobody puts reports of two terms together.
//	R19      News of what is released says up to where it goes; it only adds, and only to
//	         what is committed here.
//	R20      What an entry touches is known when it is appended, rather too much of it.
//	R22      A leader without a majority releases nothing, and the others wait for its
//	         promises while they elect another, not afterwards.
//	R24      In key order an entry is applied when it is committed and seen when it is
//	         released, each by itself;
//	R25      but not before what it depends on: what it reads, or the same keys.
//	R26      A range is read by who holds all of it, as it was at one moment.
//	R27      Revisions are in order for the keys that are read together, and for no others.
//	R28      A watcher gets the events of its range in order and without a gap.
//	R29, Q-3 Who does not hold the keys asks how far the leader's log has them, committed
//	         or not, and waits until that is released.
//	R30      Acknowledgments go to where a write came from, too, which releases it itself if
//	         it is of the present term: three one-way delays in place of four. In key order
//	         only. In the order of the log the leader reads past whatever is on its way,
//	         since nobody can have released that before it; else each read there would wait
//	         for every write, to any key.
//	Q-7      Reads are counted where they are answered, and reported.
//
// # When members come and go
//
// One at a time: a change of the membership is an entry that every holder is waited for,
// whatever it holds, and the next is proposed when it is released, by a leader that has
// had an entry of its own released before. So of [Memberships] two count at most, and
// any majority of the one shares a voter with any majority of the other.
//
// Hence an entry up to a change, and the change itself, is released by a majority of
// either. Who reads without it knows the voters before, and has promises of a majority
// of them; one of those is among the ones that vouch. To ask for
// both majorities would be no safer, and would stop where a cluster of one grows, whose
// newcomer has not been started, or where one of two was removed, is gone, and was bound
// to others when it spoke last. What is behind a change needs the majority behind it; for by then nobody
// reads who does not know the change, and nobody ever will: of those that vouched for
// it, each names the holder, which has it, or stamps its promise with a place behind it.
//
// For a reader, too, the newest majority would do, by the same argument. It needs both
// while it does not know that the change is released: that costs nothing, and what it
// believes then rests on no other rule.
//
// A replica that is removed stays a holder until it has the entry, stops reading when it
// sees it and gives its promises back, or until they have run out: nobody who has the
// entry renews them. Promises of a grantor that was removed count for nobody who has the
// entry. That a promise from before is taken for one of a member that came back needs no
// epoch to prevent it, for nobody comes back: an ID that was removed is never added again,
// and who votes says the rest.
//
// # Assumptions
//
//   - Clocks count suspend and differ in rate by less than one in a hundred, each way.
//     They need not agree on the time. A virtual machine that is copied, or frozen with
//     its clock, is outside of this until somebody tells it the time; see below.
//   - A member's boots grow, and no two of its lives overlap. EarlierTTL is durable
//     before a promise of that length is made.
//   - Messages may be lost, repeated, late and out of order; they are not forged.
//   - A committed entry is in the log of each later leader, and is never replaced where
//     it was acknowledged.
//
// # Clocks that break
//
// A process that was stopped, or a machine that was suspended, finds its leases over, since
// the clock went on. A clock that goes back ends its member. Beyond that a member compares
// its clock with the machine's others, ten times a second or more (package clock), and doubts it for
// a second when they say that it
//
//   - stood still or jumped: the time of day moved apart from it. That is all that a virtual
//     machine can notice which was frozen with all its clocks, and only when the time of day
//     is set right afterwards. Until then it may answer reads with what was there when it
//     was frozen, for up to the rest of a lease. Nobody can help that from inside: give such
//     machines a clock that goes on, or the policy off. Whoever sets the time of day by hand
//     causes doubt, too, which costs a second of local reads;
//   - goes at a wrong rate: by more than one in two hundred, compared with one that NTP does
//     not correct. Chrony corrects large errors by up to one in twelve unless maxslewrate
//     says less; until that shows, a clock is off by 9 ms, and grantors wait 10 ms longer
//     than they promise. A machine whose crystal is off by so much is in doubt for ever,
//     though NTP sets that right.
//
// In doubt a holder gives its promises back, and who asks it is answered by way of the
// leader. A grantor may have taken promises for over that bind it, so they last twice as
// long, and those that ran out since the clocks were compared last are made anew, once. That
// covers a clock which jumps once within a promise, or goes up to twice as fast as it should.
// So reads are slower, and writes that meet a holder's death wait for up to three promises'
// length, however long the doubt lasts. Leases of clients are not touched: a
// leader's clock that runs ahead ends them early, and holders have to allow for that.
//
// # What it costs
//
// A write waits for every live holder of what it touches, in place of a majority. A
// holder that dies is waited for until its promises have run out, TTL and a hundredth;
// one that the leader cannot hear, for half a TTL more and the way of two messages. A
// holder asks all voters four times a TTL, and each answers.
//
// # Where it differs from the paper
//
//   - Holders ask for promises. In the paper grantors push them, and need a guard and a
//     grace period to bound what they do not know: nine seconds from a death to the next
//     write, where this takes a TTL. That way is in package pushlease of the lab, to compare
//     with.
//   - A promise says nothing of keys. Who holds which is for the owner to say, by
//     entries of the log, so a new configuration lets no lease lapse (R12).
//   - The paper's replica waits after a restart before it accepts anything (t_wait).
//   - The paper commits when the holders have accepted; here the log commits as ever,
//     and releasing comes after, so that nothing of the log's protocol changes.
package quorumlease
