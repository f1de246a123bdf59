// Package sim runs many machines in one seeded world: a scheduler, a network, a
// disk and a clock for each host, all of them faulty. One seed is one world, and
// replays exactly.
//
//	w := sim.NewWorld(seed)
//	c := sim.NewCluster(w, 3, 64<<10)
//	w.Run(3 * time.Second)
//	c.Clients(4)                // read, write, compare and swap
//	c.Holders(4)                // keep leases, then leave them
//	c.Lockers(3)                // compete for a lock, as etcd's Mutex does
//	c.Janitor()                 // compacts the history
//	c.Chaos(30 * time.Second)   // faults of the kinds that this seed drew
//	c.Heal()                    // no more faults
//	err := c.Settle()           // what must come true now
//	err = c.Check()             // what must have been true all the time
//
// # Two ways to look for trouble
//
// Worlds are random: TestWorlds runs many seeds, each with faults of its own
// (crashes of one or all, pauses, partitions both ways and one way, slow disks,
// stalled appliers, false reports of death, hand-overs, loss, repetition and
// late arrival). They find what nobody thought of.
//
//	go test ./sim -run TestWorlds -worlds=1000 -first=5000
//	go test ./sim -run TestWorlds -seed=4711 -notes=500
//
// Scripts are directed: TestScripts plays one suspicion each, on a stage where
// nothing fails unless the script says so, and where it can take any message off
// the wire to deliver it later, twice or never. They are exact and fast. Each
// rule of package replica has a mutant that a script must catch;
// testdata/mutants/README.md has the table.
//
// # What is checked
//
// The checkers stand apart from the machines and know true time.
//
//   - Members apply the same entry at the same index, and end in equal states.
//   - The history of reads, writes and swaps is linearizable (porcupine).
//   - A write takes effect once if it was acknowledged, at most once if its fate
//     is unknown, and never if its client was told so; none is lost.
//   - Events are the same at all members, in all lives, in the order of revisions.
//   - Nobody who asks later is told of a lower revision, at whatever member.
//   - No lease ends before TTL has passed since a renewal that was granted was
//     sent, on the clock of a holder that allows for drift.
//   - A lease that lives is never called unknown, one that ended never granted.
//   - Without faults a lease ends within half a second of its TTL; with faults,
//     it does not survive them for long.
//   - Two holders of one lock are never inside at once, as they themselves
//     reckon; the token grows from one to the next.
//   - After the faults there is a leader, operations complete, and locks are taken.
//
// # What is not simulated
//
// Disks tear no write and flip no bit: that is package wal's own test. Wall
// clocks play no part. The time that a step takes is small and not modelled.
//
// raft draws its election timeouts from crypto/rand. NewWorld therefore puts a
// seeded source in place of crypto/rand.Reader, for the whole process: only one
// world may run at a time, and never beside anything that needs secrets.
package sim
