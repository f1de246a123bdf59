// Package replicasim plays worlds of the consistent core, package replica: members
// with their appliers and stores, and clients that read, write, keep leases and
// compete for a lock, while package sim's faults happen to them.
//
//	w := sim.NewWorld(seed)
//	c := replicasim.Start(w, replicasim.Options{Voters: 3, Tail: 64 << 10})
//	w.Run(3 * time.Second)
//	c.Clients(4)                // read, write, compare and swap
//	c.Holders(4)                // keep leases, then leave them
//	c.Lockers(3)                // compete for a lock, as etcd's Mutex does
//	c.Janitor()                 // compacts the history
//	c.Chaos(14 * time.Second)   // faults of the kinds that are drawn now
//	c.Heal()                    // no more faults
//	err := c.Recover()          // what must come true now; chaos may follow again
//	err = c.Settle()            // what must come true at the end
//	err = c.Check()             // what must have been true all the time
//
// # Two ways to look for trouble
//
// Worlds are random: TestWorlds runs many seeds, each with faults of its own. Faults are crashes of one
// or all, pauses, suspends, clocks that change their rate, partitions both ways and one way, slow
// disks, stalled appliers, false reports of death, hand-overs, loss, repetition and late arrival. They
// find bugs that no person thought of.
//
//	go test ./internal/lab/replicasim -run TestWorlds -worlds=1000 -first=5000
//	go test ./internal/lab/replicasim -run TestWorlds -seed=4711 -notes=500
//
// TestReadLeaseWorlds plays others, which are hard for read leases. Clocks are 0.9 % off,
// promises have another length in each life, and policies change every second. Members hear
// their grantors and not their leader, disks are slow, members restart within the length of a
// promise, readers come and go. In a third of them, and in a fifth of the others, members come
// and go, too. Learners are promoted, members are removed with or without their knowledge, and
// disks are lost and replaced by new members.
//
//	go test ./internal/lab/replicasim -run TestReadLeaseWorlds -worlds=1000 -first=5000
//
// TestKeyOrderWorlds are for key order, whose keys are divided anew all the time. Most of them
// have sieges: a leader puts a key and does not hear which members have it. It is overthrown,
// hands over or divides the keys, or others restart, while all members are asked for the key.
// By chance alone that does not come together. They find it when the leader shows its entry
// early or reads past another's entry, and when others release the entry in its term or bring
// it into the next. Where a snapshot, a promise of a later term or a new division of the keys
// has to play a part they have found nothing yet in mutants: that is left to scripts.
//
// Scripts are directed: TestScripts plays one suspicion each. On its stage nothing fails unless
// the script orders it, and the script can take any message off the wire to deliver it later,
// twice or never. They are exact and fast. Each rule of package replica has a mutant that a
// script must catch; testdata/mutants/README.md has the table.
//
// # Checks
//
// The checkers stand apart from the machines and know true time.
//
//   - Members apply the same entry at the same index, and end in equal states.
//   - The history of reads, writes and swaps is linearizable (porcupine).
//   - A write takes effect once if it was acknowledged, at most once if its fate
//     is unknown, and never if its client was told so; none is lost.
//   - Events are the same at all members, in all lives, in the order of revisions.
//   - No later request gets a lower revision, at any member.
//   - What any member has shown, to watchers or readers of any kind, is in the state
//     that every linearizable read finds which sets out later, at whatever member.
//     And no member's lease, as published and by that member's clock, would let a
//     reader answer from less. That needs no reader to be there.
//   - A watcher of any keys, at one member after the other, gets each event of theirs once, in
//     the order of revisions, and its progress not before. That holds in both orders, from
//     behind the watcher's list, or from its place at another member. Each event that it gets
//     is shown, and so in each linearizable read that sets out later.
//   - An answer about many keys has their values at that revision; the history of such reads
//     and transactions is linearizable as a whole.
//   - No lease ends before TTL has passed since a renewal that was granted was
//     sent, on the clock of a holder that allows for drift.
//   - A lease that lives is never called unknown, one that ended never granted.
//   - Without faults a lease ends within half a second of its TTL; with faults,
//     it does not survive them for long.
//   - Two holders of one lock are never inside at once, as they themselves
//     reckon; the token grows from one to the next.
//   - After the faults there is a leader, operations complete, and locks are taken.
//     Once promises of that time have run out, no operation takes longer than one and
//     a half promises, and some messages that were sent again.
//
// # Left out
//
// Disks tear no write and flip no bit: that is package wal's own test. Wall
// clocks play no part. The time that a step takes is small and not modelled.
//
// raft draws its election timeouts from crypto/rand. Start therefore puts a
// seeded source in place of crypto/rand.Reader, for the whole process: only one
// world may run at a time, and never beside anything that needs secrets.
package replicasim
