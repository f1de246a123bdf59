package storage_test

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// memories are stores of one set, which any number of Leasers may open.
type memories []*register.Memory

func newMemories(n int, term, delay time.Duration) (all memories) {
	return newDrifting(n, term, delay, 1000)
}

func newDrifting(n int, term, delay time.Duration, drift int) (all memories) {
	for i := range n {
		all = append(all, register.NewMemory(register.Header{
			Set: machine.ID{1}, Of: n, Index: i, Term: term, Delay: delay, Drift: drift,
		}))
	}
	return all
}

// open returns a Leaser, and the faults on its way to each store.
func (all memories) open(t testing.TB, o storage.Options) (*storage.Leaser, []*register.Faults) {
	l, faults, err := all.tryOpen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range faults {
			f.Heal()
		}
		l.Close()
	})
	return l, faults
}

// simulate plays a test in a bubble of testing/synctest: how busy the machine is does not matter.
func simulate(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the accesses left behind end
		f(t)
	})
}

// oneClock is the clock of a machine in simulated time: all that are made read the same.
func oneClock() *clock.Simulated { return clock.NewSimulated(machine.Mono(time.Now().UnixNano())) }

func (all memories) tryOpen(o storage.Options) (*storage.Leaser, []*register.Faults, error) {
	if o.Clock == nil {
		o.Clock = oneClock()
	}
	var stores []register.Store
	var faults []*register.Faults
	for _, m := range all {
		f := &register.Faults{Store: m.Open()}
		stores, faults = append(stores, f), append(faults, f)
	}
	set, err := register.NewSetBy(o.Clock.Now, stores)
	if err != nil {
		return nil, nil, err
	}
	return storage.New(set, o), faults, nil
}
