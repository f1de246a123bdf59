// Package leasetest checks that an engine keeps the promises of package tenure,
// and has an engine in memory for the tests of programs that use leases.
//
//	func TestConformance(t *testing.T) {
//		leasetest.Run(t, func(t testing.TB) leasetest.Fixture {
//			return leasetest.Fixture{TTL: time.Second, Open: …, Cut: …, Heal: …}
//		})
//	}
//
// Run reports all misbehavior it finds, each with the promise that is broken.
// Promises about trouble need a fixture that can make some: it puts each
// Leaser behind a proxy of its own, and Cut stops that proxy. A promise whose
// trouble a fixture cannot make is skipped, visibly.
//
// Simulate runs the same cases in simulated time, in seconds, for engines that can be put into a
// bubble of testing/synctest; Each does so for those that bring a world of their own.
//
// The suite cannot see which clock an engine takes by itself. With Suspend it sees only the end
// of a lease when the clock that it was given has gone on. Nor can it see whether the store's
// durable state is durable (Crash believes the fixture), or whether the advice in an error is
// good.
//
// Exclusion is judged as it happens: at each admission every claim that must be out is
// asked at that moment whether it believes that it holds. A holder's goroutine that closes
// Done gets a grace of 100 ms, for on a busy machine it may have to wait for its turn;
// Check gets none.
//
// [Memory] is the engine in memory. It makes every kind of trouble, measures
// with Go's clock, and therefore runs in a bubble of testing/synctest, too. It is
// the correct engine that the suite is tested with; the incorrect ones are in
// the suite's own tests.
package leasetest
