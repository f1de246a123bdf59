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
//		Log: found, Applied: index, Leases: leases,
//	}, now)
//	a := replica.NewApplier(id, random)
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
//  1. The duties of a driver in package machine. What a Persist holds is written
//     in order; its Then leaves only after a flush.
//  2. Boot is fresh in each life, and IDs are used once within it.
//  3. Committed and Restore go to the Applier in the order in which they came;
//     each is answered with one or more Applied, or with Restored.
//  4. A state is published before a request in it is answered. A read waits for a
//     state that includes the Index of its ReadReady.
//  5. A snapshot from another member is durable before its message is stepped. A
//     member that starts from a snapshot its log does not lead up to first
//     writes a Record that says so.
//  6. The clock is monotonic and counts suspend.
//
// # Requests and the log
//
// Requests of one member that come together share a batch, a batch is an entry.
// It is addressed to the leader of one term: that leader appends it in that term,
// once, or refuses it. So the fate of a batch is known as soon as an entry of a
// later term is applied: what was not before it never will be. Then, and only
// then, it is addressed anew. A change of leader costs time and no error.
//
// # The rules
//
// Each is checked by scripts in package sim, and a mutant that breaks it is
// planted there to see that it is; `go test ./sim -run TestMutants
// -mutants=all`, table in sim/testdata/mutants/README.md.
//
//	P1  A batch enters the log once, in the term that it was addressed to.
//	P2  It is addressed anew only when an entry of a later term was applied, or
//	    when its leader refused it for good.
//	P3  A batch whose fate a snapshot hides is given up, as ambiguous.
//	P4  Nothing of an earlier life (a fate, refusal, answer or confirmation) is
//	    taken for this life's.
//	P5  A leader without room is asked once a tick; the log in memory, and what
//	    is handed to the Applier, are bounded.
//	R1  A read is served after a round of confirmation that began after the read
//	    arrived. A round that is tried again has a fresh ID.
//	R2  A leader confirms nothing before it has applied an entry of its term.
//	L1  Only the leader counts time, from when it has applied an entry of its term.
//	L2  A renewal is answered after a round that began after it arrived, from the
//	    leases of that moment. (A leader that slept promises nothing.)
//	L3  A new leader gives every lease its whole TTL, or what remains by a
//	    checkpoint in the log.
//	L4  A renewal of a checkpointed lease is answered when the checkpoint's removal
//	    was applied; no checkpoint follows a removal that is still on its way.
//	L5  A renewal that meets a proposed expiry waits for its outcome.
//	L6  Expiries and checkpoints hold in their proposer's term only, and never for
//	    a lease granted after they were decided.
//	L7  A lease that nobody renews ends; the comment on leases states the bound.
//	L8  At most 4 expiry entries of at most 1,000 leases are on their way.
//	D1  What says that something is durable leaves only when it is.
//	D2  A snapshot from the leader replaces the whole log.
//
// Why L1 to L4 let a holder trust its lease until TTL after it sent a renewal,
// by its own clock: the answer means that its leader was the leader after the
// sending (L2). Any later leader was elected after that and starts from a whole
// TTL (L3), or from a checkpoint made when 0.4 TTL had passed since the latest
// renewal was known, which the answer would have waited to see removed (L4).
//
// # Assumptions
//
//   - Clocks of holders and leader run at the same rate, up to the drift that
//     holders subtract. They need not agree on the time.
//   - Disks keep what they were told to flush. Messages may be lost, repeated,
//     delayed and reordered; they are not forged.
//   - Progress needs a majority that exchanges messages within an election
//     timeout, and leaders that reign for 0.4 TTL.
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
// write and flush an entry per beat for ever; leases would end no more precisely
// than the beat; and a renewal would have to be an entry too, for the remaining
// time to be the same everywhere. Here renewals touch no log unless a lease had
// been silent for 0.4 TTL, and the price is paid when a leader dies: holders get
// up to one TTL more.
//
// # What is left out
//
//   - Changes of the membership: an entry that asks for one is refused.
//   - A follower whose Applier is slower than the leader's for ever: its tail of
//     the log grows with the distance.
//   - Order among requests that are on their way at the same time.
package replica
