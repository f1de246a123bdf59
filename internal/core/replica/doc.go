// Package replica is one member's part in the consistent core: the Lease pattern
// of Patterns of Distributed Systems (Joshi, 2021) over raft (Ongaro and
// Ousterhout, 2014; go.etcd.io/raft). A cluster keeps keys, revisions and leases
// by one log; any member takes any request; only the leader counts the time of
// leases.
//
// It is two machines without goroutines, clocks or I/O of their own. A [Replica]
// turns requests into log entries, confirms leadership for reads and renewals,
// and keeps the time of leases. An [Applier] holds the state and changes it as
// committed entries say. A driver may run the two on different goroutines, so
// that an entry that takes long to apply delays no heartbeat.
//
//	r, err := replica.New(replica.Config{
//		ID: id, Boot: random, Tick: 100 * time.Millisecond, ElectionTicks: 10,
//		Log: found, Restored: state.Restored(),
//	}, now)
//	a := replica.NewApplier(id, random)
//	a.Found(replica.FoundedBy(founders)) // or Restore
//
//	r.Step(now, replica.Propose{ID: 1, Body: body}) // and others: see message.go
//	rd := r.Ready()                                 // as package machine has it
//	for _, out := range rd.Outcomes {
//		switch out := out.(type) {
//		case replica.Committed: // give to the Applier, in order, then
//			applied, results := a.Take()
//			publish(a.Store().View()) // before anybody is answered
//			r.Step(now, applied)
//			answer(results)
//		case replica.Restore: // load the snapshot that came, then
//			r.Step(now, a.Restored())
//		…
//
// # What the owner owes
//
//  1. The duties of a driver in package machine. The record of a Persist is written
//     in order; its Then leaves only after a flush.
//  2. Boot is greater in each life, no two lives overlap, and IDs are used once within
//     one. EarlierTTL is durable before a promise of that length is made.
//  3. Committed and Restore go to the Applier in the order in which they came;
//     each is answered with one or more Applied, or with Restored.
//  4. A state is published before a request in it is answered. A read waits for a
//     state that includes the Index of its ReadReady. A Held result is shown to no
//     caller before a Released says so. Outcomes are seen to before anything of the same
//     Ready leaves.
//  5. A snapshot from another member is durable before its message is stepped. A
//     member that starts from a snapshot its log does not lead up to first
//     writes a Record that says so.
//  6. The clock is monotonic and counts suspend.
//
// # Requests and the log
//
// Requests of one member that come together share a batch, a batch is an entry; in key
// order, those that wait for the same holders (lanes.go).
// It is addressed to the leader of one term: that leader appends it in that term,
// once, or refuses it. So the fate of a batch is known as soon as an entry of a
// later term is applied: what was not before it never will be. Then, and only
// then, it is addressed anew. A change of leader costs time and no error.
//
// # The rules
//
// Each is checked by scripts in internal/lab/replicasim, and a mutant that breaks it is
// planted there to see that it is: `go test ./internal/lab/replicasim -run TestMutants
// -mutants=all`, table in internal/lab/replicasim/testdata/mutants/README.md. Rules that are
// called R or Q are of read leases. docs/rules.md has all of them, with their reasons.
//
//	P1  A batch enters the log once, in the term that it was addressed to.
//	P2  It is addressed anew only when an entry of a later term was applied, or
//	    when its leader refused it for good.
//	P3  A batch whose fate a snapshot hides is given up, as ambiguous.
//	P4  Nothing of an earlier life (a fate, refusal, answer or confirmation) is
//	    taken for this life's.
//	P5  A leader without room is asked once a tick; the log in memory, and what
//	    is handed to the Applier, are bounded.
//	P6  In key order requests share a batch if each waits for the same holders, for what
//	    it changes and for what it depends on. It is for speed: an entry is released whole,
//	    by the holders of all its keys under each configuration that may be in force (R13).
//	C1  A read is served under a read lease (below), or after a round of confirmation
//	    that began after the read arrived. A round that is tried again has a fresh ID.
//	C2  A leader confirms nothing before it has applied an entry of its term.
//	C3  A voter's question, of reads or leases, is a round of its own if it and the
//	    leader are a majority; else the leader begins one (rounds.go says why).
//	L1  Only the leader counts time, from when it has applied an entry of its term.
//	L2  A renewal is answered from the leases of that moment, after a round that began
//	    after it arrived, or by a leader that has a read lease then. The asker must still
//	    follow that leader. A leader that slept promises nothing (S-1).
//	L3  A new leader gives every lease its whole TTL, or what remains by a
//	    checkpoint in the log.
//	L4  A renewal of a checkpointed lease is answered when the checkpoint's removal
//	    was applied (S-2); no checkpoint follows a removal that is still on its way.
//	L5  A renewal that meets a proposed expiry waits for its outcome.
//	L6  Expiries, checkpoints and removals hold in their proposer's term only, and
//	    never for a lease granted after they were decided.
//	L7  A lease that nobody renews ends; the comment on leases states the bound.
//	L8  At most 4 expiry entries of at most 1,000 leases are on their way.
//	D1  What says that something is durable leaves only when it is. A commit
//	    index alone need not be: it is written with what is, or with a tick.
//	D2  A snapshot from the leader replaces the whole log.
//	D3  An acknowledgment that repeats an earlier one goes with the next tick:
//	    the earlier one may have been lost, but most often was not.
//
// Why L1 to L4 let a holder trust its lease until TTL after it sent a renewal,
// by its own clock: the answer means that its leader was the leader after the
// sending (L2). Any later leader was elected after that. It starts from a whole TTL (L3), or
// from a checkpoint made when 0.4 TTL had passed since the latest renewal was known. The
// answer would have waited for the removal of that checkpoint (L4). A leader with a read
// lease needs no round, since a later leader counts time from when an entry of its own is
// released (L1). That waits for the read lease to end, or for its holder to have the entry
// and know that it leads no more.
//
// # Positions in the log
//
// An index is an entry's number in the log, from 1. These are the words for how far
// something has come, at one member; each says that it is true of all entries up to there.
//
//	word        all entries up to there …
//	snapshot    are in the newest durable snapshot (tail.snap)
//	last        are in the log here, flushed or not: the log ends there
//	received    are as the leader of this term has them, by its word
//	durable     are that, and flushed here
//	committed   are on a majority's disks, and this member has accounted for that
//	handed out  were given to the Applier, to be applied: committed, and in strict
//	            order released
//	applied     are in the Applier's state, by its report
//	released    are with every holder that may read without them. The leader may have told
//	            of more than is committed here (releasedHere is the lesser)
//	through     are released, in key order, in which single entries beyond, apart from it,
//	            may be released as well
//	visible     are applied and released: this member itself goes by them, for leases and
//	            members, and its readers may see them
//	recorded    are known to the disk to be released
//	horizon     are released but for those that the leader's news name as held
//
// At one member, unless it loads a snapshot, applied ≤ handed out ≤ committed ≤ last, and
// visible is the lesser of applied and released. In strict order nothing is handed out that
// is not released.
//
// [visibility] is the seam at which committed becomes visible: strict order and key order
// are its two implementations.
//
// # Parts
//
// A Replica is made of parts: writes, proposals, rounds, asks, leases, and readLeases with
// plans and the two orders. A part knows neither the Replica nor another part. It is told the
// [moment], a value that says where this member stands. It adds to the [effects] of the turn
// (messages, records, outcomes), and returns what other parts are to know. Only methods of the
// Replica call more than one part, and say in which order: Step and Ready, and those that they
// call.
//
// # Read leases
//
// Members may hold quorum read leases; package quorumlease has the rule and its proof,
// [ReadLeases] the settings. A committed entry is *released* when every holder that
// may read without it has it. Nobody sees it before: no reader of any kind, no
// watcher, no writer that waits for an answer, no reader of a snapshot.
//
// In strict order a holder holds all keys, and an entry goes to the Applier when it is
// released, so that everything that is applied may be seen. A reader loads what the
// last [ReadLease] said, then reads the clock; while Until has not come, a state that
// has applied Index will do. That takes no turn of this machine.
//
// In key order an entry waits for the holders of the keys that it touches, and for
// earlier entries that it depends on. It is applied when it is committed, marked as
// Held, and [Released] says what becomes visible. To everybody that is the prefix of the log
// that is released whole. Apart from it, single entries become visible to callers that wait for
// their results, and to readers of their keys. A reader asks with [ReadKeys], or takes no turn
// of this machine: then it looks at the last [KeyLease], which has the keys of all entries that
// are not released and in the state. If its key is not among them, and the member holds it,
// and Until has not come, a state of that time will do.
//
// A reader of key a may then see revision 11, and a later reader of key b not yet 10: revisions
// are in order for the keys that were read, and for no others. With a holder of {b} that is cut
// off, the put of a at revision 11 is answered while that of b at 10 waits for a promise to run
// out. Meanwhile a reader of b finds the value before 10, whatever it knows of 11. Etcd's
// clients that compare revisions of different keys want strict order.
//
// Keys that are *read together*, a range or a transaction that only reads, are read as
// they were at one moment. A state of the log would not do: it may have the put of b and
// lack that of a, which is behind it and was seen before it. If nothing in the member's
// log that touches the keys is held, and it holds them all, it answers. Otherwise the
// read takes a place in the log by itself ([EncodeRead]). It waits for all that is
// before it, as all that is behind it waits for it. The paper has single objects.
//
// In key order a leader may *keep* its own proposals. A mark in the entry says that in its term
// only the leader releases it; the others wait for its word. So while it is the leader beyond
// doubt, it need not make readers of a key wait for a put of its own that is on its way. Nobody
// has seen that put, and the leader answers with the state before. It keeps entries of keys
// that it holds and, where reads are counted, that are read there much, for readers elsewhere
// wait longer. It does so only while all members are known to understand the mark (level.go).
// The others find out by themselves that all other entries are released, and the leader's
// readers wait for these (R30). The paper has no such reads: the reads of its leader wait for
// every write, which takes a majority's time. They rest on this:
//
//   - Nobody else judges it in that term: neither one by one, nor in the prefix of the
//     log, nor blindly, from a state that does not tell whose entries it has. And nothing
//     that others found out about it in that term is brought into the next.
//   - A later leader releases it by reports of its own term. Each majority of these has
//     one of the leader's grantors. That grantor's report names the leader, since none
//     of the promises that the leader counts was first made in a later term than its
//     own. And the leader would know better by the time it had reported.
//   - By the configuration of the moment it is a holder of what the entry changes, so
//     that it is waited for.
//   - All members see the same keys in the entry, so that nobody releases what is behind
//     it before it. The end of a lease is not like that: its keys depend on the state.
//
// A member that holds none of the keys asks the leader up to where it has to look, and waits
// until its own log is released so far. The answer is never the commit index, of which others
// may know more than the leader (R29, Q-3). It would gain nothing to ask the nearest holder for
// that instead: the holder's log would be ahead of the asker's, which waits for the leader's
// word anyway. It does gain to send the whole read there. Clients do that: they find the
// nearest holder by the service in package readleasepb.
//
// A new leader's first entry, and entries that change the holders of keys, wait for
// everyone with a promise in either order. So answers that the leader before gives
// under its lease stay true, and members that lose keys have stopped reading them.
//
// [Promises] is the seam between this and the protocol by which members promise each other to
// wait. The paper's own ways are behind it in package pushlease of the lab, to be measured:
// promises that are pushed, leases that lapse when keys change hands, members that stand
// aside after a restart. Nothing that serves has them.
//
// # Members that come and go
//
// A request made by [AddMember], [PromoteMember], [RemoveMember] or [UpdateMember]
// becomes one of raft's entries of its own kind, alone in its batch, with the fate of a
// batch and a Result. The leader looks at it before it is appended, since raft goes by an
// entry that is committed, sensible or not. A change is Rejected if it makes no sense, or
// would leave less than a majority of voters that are alive. [Roster] names the members; it
// is part of the state.
//
//	M1  One at a time: a change waits, and holds up no other request, until the one
//	    before is released and the leader has an entry of its term released (R23).
//	M2  Raft goes by a change when it is committed, and takes it for applied: members
//	    that wait for its release can be elected.
//	M3  That it is committed is written at once; and a log in which one change follows
//	    another says by itself that the first is committed.
//	M4  A leader that is to be removed hands over first. One that finds itself removed
//	    by the change of an earlier leader steps down.
//	M5  A newcomer begins with Genesis of the founders and an empty log. It is sent the
//	    log, or a snapshot that is no older than the entry that made it a member.
//	M6  A removed member never comes back under its ID, and nobody listens to it.
//	M7  A learner is promoted when it has all but 1,000 entries of the log.
//
// # Users
//
// Requests that change users and roles (package auth) are entries like others, each alone in
// its batch. Once users are in force, entries carry the caller of each request, which is judged
// when the entry is applied: by all members alike (AU-12). Until all members are known to know
// of users, none is added (AU-11). A change that takes effect before it is applied cannot be judged here,
// and is judged by the member that proposes it: changes of the membership and of read leases.
//
// In key order, whether a key may be attached to a lease depends on the keys that the lease has.
// Entries that change those are no dependency (R25): a refusal may tell that somebody has put
// another key with that lease, before that put is visible.
//
// # Assumptions
//
//   - Clocks of holders and leader run at the same rate, up to the drift that
//     holders subtract. They need not agree on the time.
//   - Disks keep what they were told to flush. Messages may be lost, repeated,
//     delayed and reordered; they are not forged.
//   - Progress needs a majority that exchanges messages within an election
//     timeout, and leaders that lead for 0.4 TTL.
//
// # Where it differs from the pattern
//
//   - The pattern's leader answers a renewal at once. One that was deposed while
//     it slept would promise time that it no longer has (L2).
//   - The pattern's leader removes an expired lease and then proposes that. Here
//     it stays until the entry is applied, at the leader as elsewhere, so that
//     no renewal falls between the two (L5), and a leader that is deposed
//     meanwhile has ended nothing (L6).
//   - The pattern's new leader refreshes all leases. Under leaders that come and
//     go a dead lease would live for ever, hence checkpoints (L3, L4, L7).
//   - The pattern's clients find the leader. Here any member passes renewals on,
//     many in one message.
//   - The pattern checks all leases at an interval. Here the earliest is in a
//     heap, and sets the alarm.
//
// # Why the leader's time and not a cluster clock
//
// The pattern's first note tells of LogCabin's ClusterTime: a clock that goes
// forward by log entries, so that all members can end leases by themselves. A
// change of leader then costs a dead lease nothing. But an idle cluster would
// write and flush an entry per beat for ever. Leases would end no more precisely
// than the beat. And a renewal would have to be an entry too, for the remaining
// time to be the same everywhere. Here renewals touch no log unless a lease had
// been silent for 0.4 TTL, and the price is paid when a leader dies: holders get
// up to one TTL more.
//
// # What is left out
//
//   - Changes of more than one member at a time, and voters that learn again.
//   - A follower whose Applier is slower than the leader's for ever: its tail of
//     the log grows with the distance.
//   - Order among requests that are on their way at the same time.
//   - A leader that was elected with its own removal in its log steps down as soon as
//     that is committed. With two voters, if its last messages are lost and it is
//     switched off at once, the one that is left waits for its vote for ever.
//   - Order between a lease and the keys that have left it, in key order: a client that has
//     seen the lease end may still read a key as it was before it was put without the lease.
//   - Leases of clients are told in the order of the log, in key order as well: while a
//     key is held, renewals wait for what is before them. They should last longer than
//     promises to readers, 200 ms unless that is changed.
//
// # What is believed of a message
//
// Messages come from members (package peer), and raft takes them at their word. A commit
// index behind the end of the log makes it panic. An entry that nobody can apply ends each
// member that has it, again after each restart. So each message of raft's is looked at
// before it is stepped (sound.go):
//
//   - its type is one that members send, and no number is near overflow,
//   - entries follow each other and can be read,
//   - members of a snapshot are a set with this one in it,
//   - no index that is acknowledged or committed is beyond the log.
//
// A message that is not sound is dropped, and the Logger is told. An entry of a newer version
// is refused like this, too: this member falls behind until its own version is newer.
package replica
