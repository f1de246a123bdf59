// Package flease keeps leases among the processes that want them. Each of these processes is a
// peer, and a majority of the peers agrees (Kolbeck, Högqvist, Stender, Hupfeld: Flease - Lease
// Coordination without a Lock Server, IPDPS 2011). There is no server and no disk. It is the
// engine behind flease:// URLs.
//
//	leaser, err := flease.Open(ctx, flease.Config{Self: "a:7000", Members: []string{"a:7000", "b:7000", "c:7000"}})
//	…
//	lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "shard-7"})
//
// A peer is silent for a while after each start. Processes that are too short-lived for that use
// the peer on their machine: `tenure peer` listens at a socket, and [Dial] makes a Leaser of it.
//
// # Assumptions
//
//   - The clocks of any two peers, as NTP or PTP sets them, differ by less than ε. Exclusion
//     rests on it. A peer notices some violations. It refuses and reports a ballot from ahead of
//     its own clock. A clock that steps by more than ε/4 against CLOCK_BOOTTIME counts as a crash
//     of its peer, with all its leases lost and a silence. With Config.CheckClock, so does a
//     kernel that does not vouch for ε/2. Tokens grow even if ε is broken.
//   - Every peer has one index, and no other process has the same. A second one is refused as
//     long as the first lives.
//   - A State directory belongs to one peer and never goes back in time. A restored backup would
//     break this.
//
// # Time
//
//	acquire a free lease      two round trips to a majority of three peers
//	renew, every TTL/2        the same
//	release                   one
//	take over from the dead   the rest of its TTL and lock delay, and ε
//	start a peer              t_max + 3ε of silence, unless it was closed with a State
//
// A claim's TTL and lock delay are together t_max at most; a TTL below four round timeouts is
// raised to that. The holder stops at a twentieth of the TTL before its lease ends.
//
// # Cells
//
// A resource is coordinated by a cell of Config.Replicas peers. The cell follows from the name of
// the resource and the list of members. So capacity grows with the peers, and there are no
// partitions to draw. Everything about a lease is in memory, and a resource without claims costs
// nothing after a while.
//
// # Membership
//
// A list with addresses only is permanent: its order gives the indices. Lists that change come
// from a file, with an epoch and an index for each peer; see [Config.MembersFile]. A peer
// whose address changes is a new peer. Epochs go up by one. The next list comes when every peer
// has logged that the view of the last one is active: peers keep a list that comes sooner until
// then, and refuse one that skips an epoch. Destroy old lists: a majority of peers that start with
// one, and reach no peer that knows better, gives out leases a second time.
//
// A cell that gets other members by a change falls silent for t_max + 3ε, and its leases run out;
// cells that stay as they are go on. But a peer that is no longer a member ends when the view is
// active. It loses all that it and its clients hold at once, in unchanged cells, too: release
// before, or hold leases through a peer that stays. A peer that starts during a change needs to
// know the members before it: lines with "was" in the file. A peer refuses to start if its list is
// older than the view in which its peers vote, or does not follow on it.
//
// # Limits
//
// TryAcquire refuses claims beyond Config.MaxClaims with [ErrBusy], and new ones while renewals
// are late. Acquire waits instead. The queue to the protocol is bounded, too, so calls take longer
// when there are too many.
//
// # Left out
//
// A client's leases do not move to another peer. At most 64 leases share a resource; more wait.
// Certificates are not bound to indices: a process with a certificate of the authority may claim
// to be any peer.
package flease
