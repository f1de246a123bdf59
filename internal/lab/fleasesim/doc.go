// Package fleasesim plays worlds of package flease: peers that keep leases among themselves
// while the network, the clocks and the peers fail, with a judge that knows true time.
//
// # Worlds
//
// A seed draws the size of the cluster and of its cells, ε and t_max. It draws how clients
// behave: exclusive, shared and counted claims, tries, lock delays, releases, handovers, looks,
// write-backs. And it draws the faults. Messages are lost, doubled, delayed, and come again
// after more than t_max + W. Partitions cut one or both ways. Peers pause and suspend for
// longer than t_max, crash, and restart as planned. Clocks drift and wander inside ±ε/2. Half
// of the holders are processes of their own: they outlive their peer, and a loss that they do
// not hear of, for as long as they were told. Some worlds have peers with a disk (section 3.5),
// some change the membership. After the chaos everything heals, and claims must be served
// within a bound.
//
// In one world of eight the synchronized clocks break ε on purpose, by minutes. Then leases
// may overlap, and tokens must still grow.
//
// # Checks
//
//   - Exclusion: when a lease begins or is renewed, no other believes by its own clocks that it
//     holds, except those that the lease bears. By true time, and across the lives of a peer.
//   - Lock delays: a lease that was not released cannot be had until its lock delay is over, by
//     the synchronized clock of its peer's host.
//   - Fencing: tokens of a name grow.
//   - L1, L2: a value that is committed under a greater ballot has every lease of the lesser
//     ones that is not over by the proposer's clock, with the same owner and no earlier end.
//   - R1 to R5 of the round-based register, by direct quantification.
//   - Progress once all is healed, and no loss from then on.
//
// Scripts play single schedules that random worlds meet rarely or never, each against
// mutants with one rule removed: testdata/mutants/README.md.
package fleasesim
