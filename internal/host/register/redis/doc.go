// Package redis keeps registers on a Redis server, or one that speaks like it (5.0 or
// newer; Valkey). One server is one register.Store. Three or five independent ones, as a
// set under package quorumregister, survive the loss of a minority: a sound
// replacement for Redlock, with tokens, on the same servers.
//
//	h := register.Header{Set: random, Of: 3, Index: i, Term: 10 * time.Second, Delay: 20 * time.Millisecond}
//	err := redis.Init(ctx, redis.Options{Addr: addr[i]}, h)     // once, each of the three
//	s, err := redis.Open(ctx, redis.Options{Addr: addr[i], Obsolete: disklease.Obsolete})
//	set, err := register.NewSet(stores)
//
// The registers are those of section 3 of Chockler and Malkhi, Light-Weight Leases for
// Storage-Centric Coordination; "Distributed Locks with Redis", in Redis's documentation,
// is where Redlock is described.
//
// # Keys on the server
//
//	{tenure}:store         hash: header seal floor run kept, and lost restoring in bad times
//	{tenure}:lease:NAME    hash: version data, a note for each writer, marks of those that left
//	{tenure}:names         sorted set of the names: 1 with data, 0 with notes only
//
// "tenure" is the prefix. The braces keep all in one slot, so that a script may touch all,
// but a store is one server: a Redis Cluster gains nothing, and a failover in it is a
// loss (below). No key has a time to live: nothing of ours depends on the server's
// clock, and policies that evict only keys with one leave ours alone.
//
// Every operation is a script (lua/), which Redis runs whole. A Put keeps the greater
// version, a PutNote the greater number. So a write that got stuck in a socket and
// lands late loses, and nothing needs to compare and swap. All operations of a Do go in
// one round trip, and a server with appendfsync always makes them durable in one sync.
//
// # The seal
//
// A majority of servers is worth nothing if one of them forgets: written to A and B, B restarts
// empty, and B and C know nothing of it. That is how Redlock lets two hold one lock when a server
// restarts. Here a header is made once, with a random seal, and every script compares the seal with
// the one at which the store was opened:
//
//   - An emptied server (a restart without a log, FLUSHALL) has no seal: an open Store gets
//     register.ErrGone, and an Open gets register.ErrForeign. A set goes on without it. Never make it anew by Init: that would say that it
//     has forgotten nothing.
//   - A server that restarts with a part of its data (appendfsync everysec loses a second,
//     a dump loses more) has the seal, but another run_id than before. Each client looks at
//     that first when it connects. If the server keeps all it acknowledges (appendonly yes
//     and appendfsync always without no-appendfsync-on-rewrite, now and ever since the
//     process before began), the new process is accepted. If not, the seal is removed, and
//     everybody gets ErrStale.
//   - A replica refuses, by ErrReplica, also if it was a master when we connected: every
//     script begins with a write that changes nothing. A replica that takes over has
//     another run_id and says that it was promoted: ErrStale. WAIT would not help: it
//     makes a loss rarer, and nobody can see that it did not happen.
//   - A server that may evict our keys (allkeys-… with maxmemory) is refused: ErrEvicts.
//     One that is full and evicts nothing refuses new names, and lets leases that
//     exist go on.
//
// [Restore] makes such a server count again. It waits until no lease can depend on the lost writes,
// and copies everything from a majority of the whole set among the others.
//
// With a set of three, servers may therefore be run without a log: a restart costs a
// Restore, and nothing is lost as long as fewer than half are lost at a time. With one
// server [Store.Warning] says so unless it has appendfsync always.
//
// Some losses are not noticed. Data may be put back from an old copy whose last process kept all,
// for its run_id is taken for an earlier one. A disk may lie about syncs. appendfsync or the
// eviction policy may change while connections stay open. A replica may take over and be restarted
// before any client connects. Quorumregister notices some of these, by the floor.
//
// # The floor, and forgetting
//
// The floor is the greatest number that any name's version had, and every Query shows it:
// new versions exceed it. So tokens grow although names are forgotten. A writer's remains
// (its note, and the data if that is its own) are removed when it leaves and
// Options.Obsolete says that nobody needs them. If they have to stay then, later operations
// of any client remove them. A name that nobody needs leaves nothing behind.
//
// A writer that crashed never leaves. Its note goes when it has not changed for 100 Quiet on the
// clock of one process that looks at the name all the time, and Obsolete agrees. That is safe,
// because a living waiter or sharer changes its note within a Term. A writer that did not is dead,
// and so is a writer without a note. The loss of a release stamp costs the next claim a wait of
// Term, no more. Obsolete keeps the stamp while the data names its writer. Notes of other protocols
// (disklease's ranked registers) are all their memory, and Obsolete keeps them. Data of a crashed
// holder stays until another claim takes the name: about 300 bytes.
//
// A late Put of a name that has been forgotten meanwhile is taken: the client that needed
// it has given up, it costs the next one a wait, and the floor keeps tokens growing.
//
// # Time
//
// Nothing here is safe because it is fast: bounds are the business of disklease. A server
// is waited for ten times Delay, an eighth of Term at least, half of it at most; then
// the connection is dropped. The write may have been done, or be done later: Do reports
// the error and repeats nothing, nor does the client library. A server that refuses
// connections is tried again about once a second.
//
// # Users and rights
//
//	ACL SETUSER leases on >secret ~{tenure}:* -@all +@hash +@sortedset +@scripting
//	    +del +exists +type +persist +info +config|get +ping
//
// # Left out
//
// Redis Cluster and Sentinel. Keyspace notifications instead of polling. Servers that lie.
// A client that may write the keys can do anything.
package redis
