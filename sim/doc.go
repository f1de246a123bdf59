// Package sim runs many machines in one seeded world: a scheduler, a network, a
// disk and a pair of clocks for each host, all of them faulty. One seed is one
// world, and replays exactly.
//
//	w := sim.NewWorld(seed)
//	c := sim.NewCluster(w, sim.ClusterConfig{Members: 3})
//	c.Chaos(30 * time.Second)   // faults, with clients at work
//	c.Heal()                    // no more faults
//	err := c.Settle(…)          // what must now come true
//	err = c.Check()             // what must have been true all the time
//
// The checkers stand apart from the machines and know real time: whether
// histories are linearizable, whether a lease ended while its holder could
// believe in it, or lives on without one.
//
// raft draws its election timeouts from crypto/rand. NewWorld therefore puts a
// seeded source in place of crypto/rand.Reader, for the whole process: only one
// world may run at a time, and never beside anything that needs secrets.
package sim
