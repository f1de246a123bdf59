// Package fleaseworld plays worlds of whole Flease peers and their clients: internal/holder/flease as
// it ships, its driver, transport, sockets and state on disk included, in simulated time (see
// package world). Package fleasesim goes deeper into the protocol; this package is about the
// shell around it.
//
// # Worlds
//
// Hosts have a clock that counts suspend and runs at a rate of its own, a synchronized clock
// that wanders within ±ε/2 of true time, a disk, and a peer. Holders are processes of their
// own, which take leases through their host's peer over its socket and outlive it; some are in
// the peer's process. The seed decides t_max, ε, claims (TTLs, lock delays, slots, tries), and
// a swarm of faults. Peers and clients are killed or stand still for longer than a lease. There
// are planned restarts with a state, power cuts with half-open connections, cuts of one or both
// ways, and resets. There are slow networks and disks, disks that fail, clocks that are set,
// strangers at both ports, and changes of the members. After the last fault everything is
// mended, and has to work.
//
// Other kinds of worlds are drawn beside these: peers that are cut off and killed in turns; members that
// change all the time, by lists that each host reads when it likes; peers whose clocks are all set back, and that
// start anew in turns, so that tokens begin anew; peers that start with a state of an earlier end; and a peer
// with a synchronized clock that is wrong by more than ε from its start. Exclusion rests on ε, so of a
// clock that is behind only the tenures of others are judged by it. All are safe from a clock that is
// ahead: no claim gets a lease by it. Both have to be heard of, and the other peers go on.
//
// # Judgement
//
//   - Exclusion: whenever a holder's Check returns nil, no other's does, except those of
//     holders that it bears; by true time.
//   - Tokens grow.
//   - Lock delays: a lease that was not released cannot be had before its lock delay is over.
//   - Orphans and liveness: once nothing fails, every claim is served within a bound, by the
//     same clients over the same connections as before.
//   - Early loss: once nothing fails, no lease is lost.
//   - Records: one that was acknowledged or read stays, or a later one takes its place, as long as no majority of the
//     members has forgotten at one moment. That is judged in the order of time, for reads by anybody.
//   - Memory: once everything is released, peers have no claims and remember no names.
//   - Words: no error states a thing twice, or speaks of a detail that only the program knows.
package fleaseworld
