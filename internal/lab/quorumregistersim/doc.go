// Package quorumregistersim judges package quorumregister in simulated worlds.
// Several clients read, write and note over several bases. The bases are slow,
// hang, fail with and without effect, let writes land late, die, and go back to an
// old copy. Clients crash in the middle of a write and are paused.
//
// # Checks
//
//   - Atomic registers are linearizable, by porcupine; regular ones are regular, by
//     Definition 1 of Chockler and Malkhi. Package registertest has both checkers.
//   - Versions are fencing tokens: unique, and greater for what begins later.
//   - A read shows of every writer the last note that was complete when it began,
//     or a later one.
//   - Operations end while a majority of the bases answers, whatever the others do.
//   - No base is asked anything while it has not answered, and none is called stale that kept
//     its acknowledged writes.
//
// # Worlds
//
// In most, up to a minority of the bases is dead or hangs at any time. In some, any number
// hangs for a while, and operations only have to end afterwards. In some there is one client,
// which remembers all, and bases go back: then nothing may be lost either. (With more clients
// it may; quorumregister lists the unmasked cases.)
//
// Scripts play single courses of events, each access by hand; mutants show that they
// notice: testdata/mutants/README.md.
package quorumregistersim
