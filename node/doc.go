// Package node runs a member of the consistent core inside a Go program: a
// replica, its log on disk, the connections to the other members, and the
// published state that readers share.
//
//	n, err := node.Start(node.Config{
//		Name:    "a",
//		DataDir: dir,
//		Peers:   map[string]string{"a": "http://10.0.0.1:2380", …},
//		PeerListener: listener,
//	})
//	if err == nil {
//		err = n.Ready(ctx)                     // caught up, with a leader
//	}
//	resp, err := n.Propose(ctx, &pb.PutRequest{…})
//	err = n.Barrier(ctx)                       // then View is linearizable
//	kvs, err := n.View().Range(&pb.RangeRequest{…})
//	…
//	n.HandOver(ctx)
//	n.Stop()
//
// Package etcdapi puts etcd's gRPC API on top, `tenure serve` a process around.
//
// # Goroutines, and what goes between them
//
//	caller ── Propose, Read, AskLease ─▶ stepping goroutine (driver + replica)
//	peers  ── messages ───────────────▶     │ records       │ committed entries
//	                                        ▼               ▼
//	                               writing goroutine    applier ── Applied ─▶ back
//	                               (wal, one fsync      (kv.Store, one writer)
//	                               for all waiting)         │ publishes state,
//	                                                        ▼ then answers callers
//	                                                readers, watchers: kv.View
//
// The applier publishes an immutable state before anything in it is
// acknowledged, so a reader that comes after an acknowledgment finds the write.
// It publishes at least every 5 ms; a request that takes longer (a delete of a
// million keys) holds back only what waits for the log, never a heartbeat.
//
// In key order (package quorumlease, and Config.ReadLease) what is applied may not be
// released yet, and nobody may see it; a snapshot of such a state says up to where it was
// released. A member that starts from one, and whose log knows no better, has nothing to
// publish until it hears from a leader that the snapshot's state is released, which takes
// a majority, and for what a dead member held the rest of that one's lease. Until then
// View is the zero View: reads of it are refused ([kv.ErrNoState]), and so are watches,
// for an empty or old store would be a lie and this member cannot say when it ends; Barrier,
// ReadView and Propose wait. What the member needs for itself it takes from
// the applied state: who the members are and where, how many leases there are.
//
// # When things go wrong
//
// The member judges its clock by the machine's others. What is odd is logged, and told by
// Clock; while the clock is in doubt the member has no read lease (package quorumlease).
//
// A write or fsync that fails ends the member: it stops stepping, whoever waits
// gets ErrGRPCStopped and nothing is acknowledged any more, and Config.Fail is
// called. A data directory of another member or cluster, a newer format, or damage
// in the middle of the log are errors of Start that name the file and say what to
// do. A member that all others refuse from the start, or whose ID another process
// has, says so at once and ends after ten election timeouts.
//
// The newest snapshot but one is kept, with the log from there on, in case the
// newest cannot be read. A snapshot that the leader sent counts from the moment
// when its file is durable, even if the log does not say so yet: what it holds was
// committed.
//
// A change of leader costs callers time and no error: proposals that the old
// leader lost are proposed again (package replica). ErrGRPCTimeout,
// ErrGRPCTimeoutDueToLeaderFail, ErrGRPCStopped and the end of the caller's context
// leave open whether a request took effect.
//
// # Limits
//
// See Config: bytes of requests waiting, leases, watchers, log in memory. A request
// has 16 MiB at most.
//
// # Members
//
// The first members know each other by their flags; their IDs follow from those. Later
// ones are added through any member ([Node.AddMember]), with an ID of their own, and
// find it out by asking the others at the addresses that they were given
// ([Config.Existing]). Who the members are, and where, is part of the state from then
// on, so flags say nothing more once a data directory is there. A member that was away
// while others were replaced refuses those it does not know; then they tell it who the
// members are, and it goes by that until its own state says so. One that was removed
// ends with an error that says so, and never starts again from its data directory.
package node
