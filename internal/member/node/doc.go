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
// released. A member that starts from one, with a log that does not lead beyond it, has
// nothing to publish until it hears from a leader that the snapshot's state is released.
// That takes a majority, and for keys of a dead holder the rest of its lease. Until then
// View is the zero View, and reads of it and watches are refused ([kv.ErrNoState]): an
// empty or old store would be a lie, and this member cannot say when that ends. Barrier,
// ReadView and Propose wait. For its own needs the member uses the applied state: the
// members and their addresses, and the number of leases.
//
// # When things go wrong
//
// The member judges its clock by the machine's others. Oddities are logged, and reported by
// Clock. While the clock is in doubt the member has no read lease (package quorumlease).
//
// A write or fsync that fails ends the member: it stops stepping, calls that wait
// get ErrGRPCStopped, nothing is acknowledged any more, and Config.Fail is
// called. A data directory of another member or cluster, a newer format, or damage
// in the middle of the log are errors of Start that name the file and say what to
// do. A member that all others refuse from the start, or whose ID another process
// has, says so at once and ends after ten election timeouts.
//
// The newest snapshot but one is kept, with the log from there on, in case the newest
// cannot be read. A snapshot that the leader sent counts from the moment when its file is
// durable, even if the log does not say so yet: its content was committed.
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
// The first members know each other by their flags; their IDs follow from those. Later ones
// are added through any member ([Node.AddMember]), with an ID of their own, and find it out
// by asking the others at the addresses that they were given ([Config.Existing]). The
// members and their addresses are part of the state from then on. So once a data directory
// is there, the flags only name its owner: a directory of another member or cluster is
// refused. One that was removed ends with an error that says so, and never starts again
// from its data directory.
//
// # What is believed
//
// A member is the process that answers at the address that the log has of it; package peer
// sees to that. Other messages at the peer port may come from anybody, and change nothing:
//
//   - The answer to a question contains no secret, and the question's payload is not read.
//   - A member is removed when its own log says so, or most of the other voters of its log,
//     each at its address. One of them may be mistaken, or somebody else at its address.
//   - A member that was away while others joined does not know the leader, if that is one
//     of those. While it has no leader it asks at the addresses of its log, and at those
//     that its operator gives it with Existing. The answer may name members that the log
//     does not know. It moves, removes and brings back nobody (contacts.go). If all others
//     were replaced, at other addresses, its operator has to name one of those that there
//     are now.
//   - A member that was away while the leader moved does not listen to it. So a leader that is
//     refused as not to be found at its address hands leadership over, now and then: the next
//     one tells where it is. With nobody else to lead the member stays away.
//   - Raft's messages are found sound before they are stepped (package replica), and a
//     snapshot is kept when raft goes on from it. Until then its file is not one of the
//     data directory's snapshots, and the next start removes it.
//
// # Directories that have forgotten
//
// A member keeps its promises (votes, acknowledged entries) as long as it is started from
// the directory in which it wrote them down. A directory that was emptied, another one, or
// an older copy of it would let it promise again. So members remember each other's
// directories, which they tell apart by the random ID of the log, and of each directory the
// latest start (directories.go). They tell each other in greetings, over the streams of
// messages (admission.go). While a member is not admitted, it sends no other message and
// listens to none: it neither votes, nor stands for election, nor acknowledges anything.
// An older copy was admitted once, and takes part from its start: so the greeting is the
// first message of each connection, and no vote goes before it either way.
//
//	F1  A founder with a new directory is admitted when each of the other founders has
//	    confirmed that it remembers this directory, durably, and when it remembers theirs.
//	F2  A member remembers one directory of each other member, the first that it hears of.
//	F3  A founder that is admitted and remembers no directory of another confirms no new one,
//	    and says that this one has forgotten. A member that joined knows nothing of the first
//	    day: it neither remembers a founder's new directory nor holds it against the founder.
//	F4  A member that joined is admitted when a majority of those who vote, itself left
//	    out, have confirmed its directory. Each confirmation says who votes, and only those
//	    that say the same count together; one of a member that is not admitted does not.
//	    A member whose log has the name of one that joined confirms no new directory of it.
//	F5  A member that hears of another directory of its own, or of a later start from its
//	    own than it knows, ends. Of the second it takes a note, and is not admitted before
//	    the members that told it so confirm the start that they had doubted, whatever F1
//	    and F4 ask for besides.
//	F6  A member that is greeted from another directory than it remembers, or from an
//	    earlier start, does not listen to the sender until it is greeted well.
//
// Of a founder at most one directory is ever admitted, unless the directories of all
// founders were emptied. For let d and d' be admitted, both of founder i, and let j be a
// founder that never had but one directory. j is not i. So j has confirmed d and d', both
// from its only directory (F1), which confirms one directory of i and no other (F2).
// With a single founder there is nothing to confirm.
//
// Why all of them, and not a majority: of three founders let a and b have begun, and c be
// new. When b is emptied and a is down, b and c know no more than at the very first start
// of b and c. Two of three that may begin without the third may do so twice; etcd has that
// gap, for it asks those that it can reach. A majority of the others would do with four
// founders and more; the rule for all is simpler, and an operator watches a first start.
// From then on a majority is enough.
//
// For members that joined F4 gives nearly the same. Two majorities of the same voters have
// a member in common, and so have two of voters that differ by one change; that member
// remembers the first directory. The voters of the time when the newcomer asked are not waited
// for: they may be gone. One case remains. A member is emptied before the log has its name,
// and its next directory is confirmed after two or more changes of the membership, by
// voters of which none had confirmed the first. Once the log has the name, no empty directory
// of the member is given its identity, and none is confirmed.
//
// A voter that has not joined yet is of no use to the others, as one that has failed: with
// three voters both others have to confirm it. So replace members one after the other, and
// wait until each has joined.
//
// # A cluster that begins anew
//
// With ForceNewCluster a member that is left of a cluster begins another one, as its only
// member, from its own data (anew.go). These keep that from harm:
//
//   - The cluster and the member have new IDs, of which a part is random. So no former member
//     is listened to, and of two that begin anew neither hears the other.
//   - The revision is raised beyond all that lost members may have given out: tokens grow.
//   - All of the log counts, committed or not: this member may have acknowledged its end.
//   - Each lease has its whole TTL. It may have been renewed at a member that is lost.
//   - It begins when no promise to a reader of the former cluster is left, however long
//     its members made them. Until then there is no cluster to acknowledge a write. This rests on the
//     operator's word that the others are lost, or at least no two of them hear each other.
//   - The former data is exchanged for the new as a whole (anew_move.go), and kept aside.
//   - A directory that has begun anew does not do so again: the flag may have been left
//     in a unit file, and others have joined since. It starts as usual: to refuse would stop a
//     member that is well. An empty directory does not start with it, nor one of a member that was removed.
//
// Members cannot notice these:
//
//   - an older copy from the same start, put back while the process was down: start numbers
//     are equal then. It is found if a leader still knows what the member had acknowledged;
//   - an older copy, while all members that have heard of a later start are away. It ends when it
//     hears from one of them. To have each start confirmed would prevent that, and of three
//     members none could start again while another is away;
//   - an empty directory of a member that was the only founder: it has nobody to ask. The
//     others do not listen to it, but clients that know no other address would;
//   - directories that were all emptied or restored together, which is a new cluster, or
//     the old one of that time;
//   - a directory whose member ran only before members remembered these things (F3 holds
//     for founders), until it has greeted the others once.
package node
