// Package diskleasesim plays worlds of storage leases: processes that contend for a lease in
// one shared register, with a judge that knows true time.
//
// # Worlds
//
// A seed draws one of three kinds.
//
//   - The paper's model (3.3): a register that is merely regular, with one
//     permutation for all reads. Accesses end within δ once the system is stable,
//     after any chaos before. Processes follow Figure 2 and a renewal of section 7
//     to the letter, with no fail-aware check. Properties 1.1, 1.2, 2.1 and 2.2
//     must hold from Δ after each stabilization on; there are several in a world.
//   - What ships: the fail-aware lease on an atomic register whose accesses stall, fail, get
//     stuck and take effect late, under crashes, pauses and clocks that drift. Exclusive,
//     shared and counted claims meet; holders release, die, come back. Tenures never overlap,
//     and tokens only grow. Once all is healed, claims must be served within a bound, and no
//     renewal may fail.
//   - The same over quorumregister and three disks, a minority of which dies, hangs
//     and comes back.
//
// TestConstants shows the paper's constants from both sides, Contend how a lease fares
// against the number of contenders.
//
// ConsensusProtocol plays worlds of consensus: oracles, ranked registers and proposers,
// under leaders one at a time and many at once. Properties 3 to 6, agreement, validity
// and integrity are judged at all times, and termination once all is healed.
package diskleasesim
