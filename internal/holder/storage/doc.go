// Package storage keeps leases in shared storage: in directories, on devices, in Redis servers, in
// memory. It uses one store, or several of which a minority may fail. There is no server of ours
// anywhere. Packages internal/holder/file and internal/holder/redis open the stores.
//
//	set, err := register.NewSet(stores)
//	leaser := storage.New(set, storage.Options{})
//	lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "nightly"})
//
// # How a name is held
//
// Each name is one register. A claim is a machine of package disklease with an identity of its own,
// which contends for the register and renews it. Package quorumregister makes the register out of the
// set's stores. This package drives the two, and says when a tenure ends. The papers and the argument
// are in those packages.
//
// The token is the register's version at which the claim won.
//
// # Time
//
// The header of the stores is made once. It fixes how long a lease lasts, Δ (Term), and how long an
// access to the storage takes, δ (Delay):
//
//	acquire a free lease          a read, a write, 2δ, a read
//	renew, every Δ/3              the same
//	take over from the dead       Δ + 6δ after its last renewal
//	notice a release              within about Δ/50
//
// A claim's TTL is 0, which stands for Term, or Term. Another one is refused: others wait for Term, and do
// not know of a holder that asked for less.
//
// The holder's deadline counts from the moment when its write began. It is earlier than the end that
// others wait for by the header's Drift, for clocks whose rates differ. Done closes at that deadline by
// this machine's clock alone, even if the storage never answers.
//
// δ is measured as long as the Leaser lives, and grows with slow accesses. An access that takes longer
// than δ costs time, and never two holders. A claim whose write was slow has to be waited out for
// Δ + 6δ, by itself too. TryAcquire does so if that takes less than the seconds that it has for the
// stores. Else it says that it is in its own way.
//
// # Waiting, and trying once
//
// Nothing in the storage distinguishes a dead holder from a living one: only watching does, for Δ + 6δ.
// Acquire does that. TryAcquire does not wait, and remembers its observation instead. If a later
// TryAcquire, of this process or another, sees the same so much later, the holder is dead. So
// `tenure lock --wait 0` in a cron job gets a dead holder's lease in the end.
//
// The observation is kept in a file below Options.State. It counts only for this boot of this machine,
// by whose clock it was made, and only if no other user but root can have written it.
//
// Observe and List show a dead holder until another claim has taken over, or until they have looked
// often enough. Until is the latest possible end, given the observations.
//
// # Processes that end
//
// Of one store, others on the holder's machine may learn at once that its process has ended, and then wait
// for nothing ([Lifelines]). Whatever a lifeline does not show for sure is waited out. Several stores have
// none yet: the end of a process is no less true there, but each store would have to be on a filesystem of
// this machine, where several stores serve no purpose. A claim's lifeline is tied before its machine takes
// a step, and cut when its tenure is over; the stamp in it follows each renewal. If the process dies between
// a renewal's write and its confirmation, a few δ each Term/3, others wait as for any other holder.
//
// # Trouble
//
// Acquire waits for storage that fails or hangs, and goes on when it is back. A lease survives any outage
// that leaves it time to renew. Nothing hangs with the storage: an Acquire ends with its context, a
// Release at the deadline, Close after some seconds at most.
//
// # Assumptions
//
// Clocks differ in rate from true time by no more than the header's Drift. The stores keep the promises
// of package register. All that contend use the same set: paths that lead two groups of machines to
// two directories give two leases.
//
// # Agreement
//
// Agree decides on one value for a name, for ever, and is safe even when leases are not. A decision that
// must never be made twice belongs there, and a decision that has to be quick belongs in a lease.
// examples/hierarchy shows the two together. Decisions are never forgotten.
//
// # Records
//
// The record of a name is a register of its own, with atomic reads. Stores cannot compare, so SetRecord
// gives each record a version that is smaller than those of all later tenures, and stores keep the
// greatest. For example, a holder with token 7 has read version (3, 5·1), the first record of token 5.
// It stops in front of its write of (4, 7·1). Its lease passes to token 9, whose read shows
// (3, 5·1) as well, and which writes (4, 9·1). When the first goes on, its (4, 7·1) is smaller.
//
// A record lasts as long as a majority of the stores keeps what it acknowledged. Unlike a lease it does
// not expire, so a store that was restored from a copy may bring back an older one.
//
// # Left out
//
// A claim that waits cannot keep its place if it is cut off for longer than Δ/2. There is no hand-over to
// a chosen successor. A token counts per store, not per name: it may jump.
package storage
