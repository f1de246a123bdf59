// Package registertest judges registers: a suite that every register.Store must pass, alone and in
// sets, and checkers for histories of reads and writes.
//
//	func TestConformance(t *testing.T) {
//		registertest.Run(t, func(t *testing.T) registertest.Fixture {
//			dir := t.TempDir() // a new, empty set
//			return registertest.Fixture{Open: func() ([]register.Store, error) { … dir … }}
//		})
//	}
//
// The suite looks at stores one by one (versions, notes, floors, sizes, damage done by
// reopening), at registers under concurrency (several handles, as if several
// processes), and at both with faults that register.Faults injects.
//
// # Checkers
//
// [Atomic] wants a history to be linearizable, by porcupine. [Regular] wants it to be
// regular: Definition 1 of Chockler and Malkhi, one permutation of the writes for all
// reads. [Versions] wants versions to be fencing tokens. They work on the histories
// of simulations, too; see package internal/lab/quorumregistersim.
package registertest
