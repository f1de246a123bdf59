// Package flease keeps leases among the processes that want them: each is a peer, and a
// majority of the peers agrees, by the protocol of package flease. There is no server and
// no disk. It is the engine behind flease:// URLs.
//
//	leaser, err := flease.Open(ctx, flease.Config{
//		Self:       "a:7000",
//		Membership: flease.Fixed(members), // of flease.ParseMembers("a:7000,b:7000,c:7000")
//	})
//	lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "shard-7"})
//
// A [Peer] may have many Leasers. Processes that are too short-lived to be peers, because
// each start costs the quarantine, use the one on their machine: `tenure peer` or
// [Peer.Serve] listens at a socket, [Dial] makes a Leaser of it.
//
// # Assumptions
//
//   - The synchronized clocks (machine.Wall: what NTP or PTP sets) of any two peers differ
//     by less than ε. Exclusion rests on it. What can be noticed is: a ballot from ahead of
//     our clock is refused and heard of; a clock that steps by more than ε/4 against
//     CLOCK_BOOTTIME counts as a crash of its peer, with all its leases lost and a
//     quarantine; with Config.CheckClock, so does a kernel that does not vouch for ε/2.
//     Tokens grow even if ε is broken.
//   - Every peer is started with one index that no other process has. A second one is
//     refused as long as the first lives.
//   - A State directory belongs to one peer and never goes back in time, as one restored from a
//     backup would.
//
// # Time
//
//	acquire a free lease      two round trips to a majority of three peers
//	renew, every TTL/2        the same
//	release                   one
//	take over from the dead   the rest of its TTL and lock delay, and ε
//	start a peer              t_max + 3ε of silence, unless it was closed with a State
//
// A claim's TTL and lock delay are together t_max at most; a TTL below four round
// timeouts is raised to that. The holder stops at a twentieth of the TTL before its lease
// ends.
//
// # Who keeps what
//
// A resource is coordinated by a cell of Config.Replicas peers, which follows from its
// name and the list of members, so that capacity grows with the peers and nobody draws
// partitions. Everything about a lease is in memory: a resource that nobody wanted lately
// costs nothing.
//
// # Membership
//
// A list with addresses is for ever: its order gives the indices. Lists that change come
// from a file or a callback, with an epoch and an index for each peer; see [Membership].
// A peer whose address changes is a new peer. Epochs go up by one, and the next list comes
// when every peer has logged that the view of the last is active: peers keep one that
// comes sooner until then, and refuse one that skips an epoch. Destroy old lists: a majority
// of peers that start with one, and reach nobody who knows better, gives out leases a second
// time.
//
// A cell that a change gives other members falls silent for t_max + 3ε, and its leases run
// out; cells that stay as they are go on. But a peer that is no member any more ends when the
// view is active, and loses all that it and its clients hold at once, in cells that the change
// leaves alone, too: release before, or hold through one that stays. Peers that start while a
// change is under way need to know the members before it: lines with "was" in the file. One
// whose list does not follow on the view in which its peers vote, or is older, refuses to
// start.
//
// # What callers wait for
//
// Claims beyond Config.MaxClaims, and new ones while renewals are late, are refused to
// TryAcquire with [ErrBusy], and held back in Acquire. The queue to the machine is
// bounded, too, so that calls take longer when there are too many.
//
// # The socket
//
// Both sides send JSON, one value a line: requests of at most 16 KiB, events of at most 16 MiB,
// for a state tells of many holders. The client begins:
//
//	{"op":"hello","version":2}
//	{"event":"welcome","version":2,"at":123456789,"t_max_ms":30000}
//	{"op":"acquire","id":1,"at":123999999,"name":"x","holder":"web-3","ttl_ms":15000,"try":true}
//	{"event":"acquired","id":1,"token":"17","ttl_ms":15000,"deadline":138000000}
//	{"op":"alive","at":125000000,"ids":[1]}
//	{"event":"renewed","id":1,"deadline":140000000}
//	{"op":"release","id":1}
//	{"event":"released","id":1}
//
// Times are readings of CLOCK_BOOTTIME in nanoseconds, which both sides read: a client
// holds its lease until the deadline that it was told, which is no later than a TTL after
// it last named the lease in an alive (acquire names its own). It has to name each more often
// than once in a TTL. Other requests are cancel (a wait; answered by refused), observe, await
// (an observe that is answered when others hold the name than those with "tokens"; cancel
// ends it), list (of the names that begin with "name", answered by events "names", of which
// all but the last have "more") and status. A connection that ends is no release: what its
// process started may still run, so its leases run out. The first line has to come within
// five seconds. A connection has room for 4,096 claims and as many requests that only look;
// more are answered with the reason "busy".
//
// # Who frees what a client has lost
//
// The peer, without being told. Each claim of a client has a liveness of its own. An alive
// names the claims that somebody waits for and the leases that are held at that moment; the
// client reads the clock first and looks at what it holds afterwards. The peer extends what
// is named and nothing else.
//
// Let a client lose a lease at L: its deadline has passed, or it was stopped, or nobody waits
// for the answer any more. It names the lease last at some A <= L, whatever it goes on doing
// over the same connection. The peer has told it no deadline later than A + TTL, and believes
// in no later one. So at L + TTL at the latest the peer ends the claim, and it releases the
// lease after the lock delay: at L + TTL + lock delay others get it, if a majority of the cell
// works. No message has to arrive for that; an orphan cannot outlive this bound because some
// message was lost, came late, or was never sent. An early version had one liveness for a
// connection and a message for each loss: a lease whose loss no message told of lived as long
// as the client was alive for anything else.
//
// The other way round, the client's belief ends with the deadline that it was told, and the
// peer releases nothing before that. So nobody has to hear of anything for exclusion either.
//
// # Left out
//
// A client's leases do not move to another peer. At most flease.MaxHoldings share a resource;
// more wait. Certificates are not bound to indices: who has one of the authority may say which
// peer it is. Handover to an heir, and the durable variant without quarantine, are in package
// flease only.
package flease
