// Package etcdapi serves etcd's v3 gRPC API from one member of a cluster, so that
// etcd's own clients and tools work with it unchanged.
//
//	api := etcdapi.New(backend, etcdapi.Config{})
//	g := grpc.NewServer(api.Options()...)      // the options are not optional
//	api.Register(g)
//	go g.Serve(listener)
//	…
//	api.Shutdown()                             // health: not serving
//	g.Stop()
//
// One file answers one verb. Messages, error codes and error texts are etcd's own,
// imported and not retyped: clients match on both. A handler checks the shape of
// its request in etcd's order, proposes it or reads the published view, and
// completes the header of the response.
//
// # Reads and writes
//
// A read takes the backend's published view, behind a barrier unless it is
// serializable, and reads in its own goroutine. Key-values are sent from where the
// store has them: nothing is copied before it is encoded. A write is proposed, and
// answered when the view that this member publishes includes it.
//
// In key order it may be answered before. Then a serializable read that follows, at this
// very member, may lack it, and a watch "from now" report it. A linearizable read at the
// write's revision waits for it.
//
// A member that has just started may have no view that it may publish, until it hears what
// was released (package node). Meanwhile serializable reads and watches are refused with
// Unavailable, on which etcd's clients go to another member. Calls that ask the leader in
// any case wait, such as linearizable reads, writes and renewals. Members and status are
// told; headers have revision 0, which is none. Its health is NOT_SERVING.
//
// # Watches
//
// Package watch finds the events; here they are sent. A stream has two goroutines,
// one a direction. Events are encoded once for all the watchers that get them, which is what
// the codec in [Server.Options] is for: a watch response is put together from the
// encoded events. For everything else gRPC's own codec, which sizes a message once
// and encodes into pooled buffers, could not be bettered.
//
// # Leases
//
// A client renews all its leases on one stream. Up to 64 renewals of a stream are
// under way at a time, and answered in order.
//
// # Locks and elections
//
// The services Lock and Election keep their keys exactly as etcd's client package
// concurrency does, so both exclude each other. They wait inside the server: a
// contender watches the key before its own and its own.
//
// # Read leases
//
// How members come to answer linearizable reads by themselves is the backend's. For
// who holds such a lease, what that holds up, and how to change the policy there is
// one service that etcd does not have: package readleasepb.
//
// # Users
//
// While users are in force (package auth), each call passes one table (access.go), which says by
// whom a method's calls are judged; a method that is not in it is refused. One function says
// which caller a call has (identify.go). The rest follows the state:
//
//	AU-14  Each method of each service has a rule. A method without one is refused.
//	AU-15  A caller is the user of its token; without a token it is that of its verified certificate,
//	       if that is configured, and never by way of the gateway from JSON.
//	AU-16  Changes of members and of read leases, which the log does not judge, are judged behind a
//	       barrier.
//	AU-17  A watch is judged when it is created, as it reads its range. After a change of users all are judged
//	       again before the next event. A call that waits is judged again when it is answered.
//	AU-18  The log has no password, and no hash that a client has brought.
//	AU-19  Changes, snapshots and failed logins are logged with their caller, and without a secret.
//
// # Where it differs from etcd, on purpose
//
//   - Errors of Lock and Election carry their codes, such as NotFound for an
//     unknown lease; etcd's server answers Unknown with the same texts. A waiting
//     contender whose lease ends is told at once, and leaves no key behind.
//   - Consecutive events of one watcher may share a response when the client is
//     slower than the writers. Revisions are never split, but for fragments.
//   - A manual progress request that comes while a watcher is behind is answered
//     when it has caught up; etcd forgets the request.
//   - The response that cancels a watch for compaction has a revision in its
//     header, and so has that to MemberList.
//   - A change of the membership is answered when all members that read under a lease know
//     of it, and the next begins then. A member has one peer URL, and a learner serves
//     all requests.
//   - Once permission goes, watches and calls that wait end; in etcd they go on.
//   - LeaseTimeToLive with keys reads them behind a barrier, and so does LeaseLeases.
//   - Compact never waits; its flag physical means nothing here. Defragment waits instead.
//   - LeaseLeases lists by id. Etcd's leader lists by what is left of a lease, which here only the
//     leader knows.
//   - While an alarm CORRUPT stands, leases that nobody renews end.
//
// # Left out
//
// No version can be downgraded to.
package etcdapi
