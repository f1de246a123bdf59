package leasetest

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
)

// grace is how long after another's admission a holder's Done may still be open.
const grace = 100 * time.Millisecond

// Fixture is an engine over one store, with the trouble that it can make.
type Fixture struct {
	// Open returns another Leaser on the same store, as another process would
	// have it. The suite closes it, unless it is cut off at the end. Required.
	Open func() (tenure.Leaser, error)

	// TTL is the shortest that the engine grants as asked for. Required. The
	// suite takes a few dozen of them.
	TTL time.Duration

	// Cut stops all traffic between the Leaser and its store until Heal, without
	// closing connections. Optional, both or none.
	Cut, Heal func(tenure.Leaser)

	// Lag delays all answers to the Leaser by d from now on. Optional.
	Lag func(l tenure.Leaser, d time.Duration)

	// Restart stops the store and starts it again on what it had made durable,
	// while no lease is held. Optional.
	Restart func() error

	// Crash does the same while leases are held, as a power loss does. All that Leasers were
	// told is durable counts as durable. Optional.
	Crash func() error

	// Suspend has d pass for the Leaser as a suspend of its machine does: its clock goes on,
	// and nothing of it has run. It is for engines that are given their clock; which clock
	// they take by themselves the suite cannot see.
	// Optional; needs Cut.
	Suspend func(l tenure.Leaser, d time.Duration)
}

// width is how many cases run side by side: they mostly wait for leases to end.
const width = 4

// Run tests the engine, each case with a Fixture and names of its own, some of them
// at the same time. open must not be surprised by that.
func Run(t *testing.T, open func(t testing.TB) Fixture) {
	var all sync.WaitGroup
	turns := make(chan struct{}, width)
	for _, c := range cases {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			t.Run(c.name, func(t *testing.T) { c.run(newBench(t, c.name, open(t))) })
		})
	}
	all.Wait()
}

// Simulate is Run with each case in a bubble of testing/synctest: waiting for leases to run
// out takes no time, and no lease is lost because the machine is busy. It is for engines
// whose clock follows package time. A call of the system, or of a server outside of the
// bubble, takes no time in it. But time stands still while a goroutine waits for one. So an
// engine that keeps one waiting, as for the next message of a connection, cannot be tested
// in a bubble.
func Simulate(t *testing.T, open func(t testing.TB) Fixture) {
	Each(t, func(t *testing.T, run func(testing.TB, Fixture)) {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(time.Minute) }) // what was closed ends its timers
			run(t, open(t))
		})
	})
}

// Each has play set the scene for each case of the suite, one after the other, each as a
// subtest, and run it there with a Fixture.
func Each(t *testing.T, play func(t *testing.T, run func(testing.TB, Fixture))) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t testing.TB, f Fixture) { c.run(newBench(t, c.name, f)) })
		})
	}
}

// cases are the suite. The name of each is the promise that it tests.
var cases = []struct {
	name string
	run  func(*bench)
}{
	{"exclusive-holders-never-overlap", exclusive},
	{"exclusive-under-partitions", exclusiveUnderPartitions},
	{"shared-beside-shared-only", shared},
	{"slots-are-never-exceeded", slots},
	{"arrivals-are-not-overtaken", notOvertaken},
	{"exclusive-waiters-in-order-of-arrival", inOrder},
	{"names-are-independent", namesAreIndependent},
	{"tokens-only-grow", tokensGrow},
	{"tokens-grow-over-a-restart", tokensGrowOverRestart},
	{"tokens-grow-over-a-crash-while-held", tokensGrowOverCrash},
	{"ttl-is-kept-or-refused", ttlKept},
	{"renewed-while-held", renewed},
	{"short-outage-is-survived", shortOutage},
	{"done-closes-at-the-local-deadline", doneAtDeadline},
	{"deadline-counts-from-the-send", deadlineFromSend},
	{"late-renewal-is-a-loss", lateRenewal},
	{"loss-is-final", lossIsFinal},
	{"lock-delay-after-a-loss", lockDelay},
	{"lock-delay-longer-than-the-ttl", longDelay},
	{"release-frees-at-once", releaseFrees},
	{"release-never-frees-a-newer-holder", releaseNotNewer},
	{"unconfirmed-release-is-told", unconfirmed},
	{"close-releases", closeReleases},
	{"suspend-counts", suspend},
	{"waiting-ends-with-the-context", waitingEnds},
	{"try-tells-who-holds", tryTells},
	{"observe-does-not-contend", observe},
	{"errors-say-what-to-do", errorsAdvise},
	{"bad-claims-are-refused", badClaims},
	{"many-goroutines-share-a-leaser", manyGoroutines},
	{"records-stay-for-the-next-holders", recordsStay},
	{"records-are-set-by-holders-only", recordsOfHoldersOnly},
	{"ended-calls-are-forgotten", contextsAreForgotten},
}
