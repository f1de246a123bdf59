package storage_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/leasetest"
)

// Short leases, and a δ that a busy machine keeps: a claim that is slower once waits for a Term.
const (
	term  = 1500 * time.Millisecond
	delay = 30 * time.Millisecond
)

func TestConformance(t *testing.T) {
	leasetest.Simulate(t, func(t testing.TB) leasetest.Fixture { return fixture(newMemories(1, term, delay), false) })
}

// TestConformanceOfThree has a store of three fail for every Leaser, a different one for
// each, all the time.
func TestConformanceOfThree(t *testing.T) {
	leasetest.Simulate(t, func(t testing.TB) leasetest.Fixture { return fixture(newMemories(3, term, delay), true) })
}

// fixture cuts a Leaser off by having all its stores hang.
func fixture(all memories, lame bool) leasetest.Fixture {
	var mu sync.Mutex
	faults := map[tenure.Leaser][]*register.Faults{}
	clocks := map[tenure.Leaser]*clock.Simulated{}
	of := func(l tenure.Leaser) []*register.Faults {
		mu.Lock()
		defer mu.Unlock()
		return faults[l]
	}
	return leasetest.Fixture{
		TTL: term,
		Open: func() (tenure.Leaser, error) {
			c := clock.NewSimulated(1)
			l, fs, err := all.tryOpen(storage.Options{Clock: c})
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			if lame {
				one := len(faults) % len(fs)
				fs[one].Fail(register.ErrInjected)
				fs = slices.Delete(fs, one, one+1)
			}
			faults[l], clocks[l] = fs, c
			return l, nil
		},
		Cut: func(l tenure.Leaser) {
			for _, f := range of(l) {
				f.Hang()
			}
		},
		Heal: func(l tenure.Leaser) {
			for _, f := range of(l) {
				f.Heal()
			}
		},
		Crash: func() error { return nil }, // a store keeps each write that it has answered
		Suspend: func(l tenure.Leaser, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			clocks[l].Jump(d)
		},
	}
}
