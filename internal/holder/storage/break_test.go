package storage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// holders are those of a name.
func holders(t *testing.T, l tenure.Leaser, name string) []tenure.Holding {
	t.Helper()
	s, err := l.Observe(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Holders
}

// TestBreak: a tenure that is broken is another's at once, with a greater token and whatever its lock
// delay, and its holder learns of it with the next renewal. That is so whenever the renewals come.
func TestBreak(t *testing.T) {
	for _, stores := range []int{1, 3} {
		for step := range 16 {
			simulate(t, func(t *testing.T) {
				all := newMemories(stores, term, delay)
				old, _ := all.open(t, storage.Options{})
				l, _ := all.open(t, storage.Options{})
				x, err := old.Acquire(t.Context(), tenure.Claim{Name: "x", LockDelay: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(term/3 - 2*delay + time.Duration(step)*delay/2) // about its next renewal
				if err := l.Break(t.Context(), "x", holders(t, l, "x")); err != nil {
					t.Fatalf("break: %v", err)
				}
				next, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
				if err != nil {
					t.Fatalf("%d stores, step %d: the next claim: %v, want it held at once", stores, step, err)
				}
				if next.Token() <= x.Token() {
					t.Errorf("the next token is %d, want it greater than %d", next.Token(), x.Token())
				}
				time.Sleep(term/3 + 8*delay)
				if err := x.Check(); !errors.Is(err, tenure.ErrLost) {
					t.Errorf("%d stores, step %d: after its next renewal the broken tenure is %v, want it lost", stores, step, err)
				}
				time.Sleep(2 * term)
				if err := next.Check(); err != nil {
					t.Errorf("%d stores, step %d: the next tenure: %v", stores, step, err)
				}
			})
		}
	}
}

// TestBreakOne: only the tenures that are named are broken. A newer one of the name stays, and so do
// others beside it.
func TestBreakOne(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		seen := holders(t, l, "x")
		if err := l.Break(t.Context(), "x", seen); err != nil || len(seen) != 0 {
			t.Errorf("nobody holds it, and break says %v", err)
		}
		gone := acquire(t, l, "x")
		seen = holders(t, l, "x")
		if err := gone.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		newer := acquire(t, l, "x")
		if err := l.Break(t.Context(), "x", seen); err != nil {
			t.Errorf("break of a tenure that has ended: %v", err)
		}
		time.Sleep(term)
		if err := newer.Check(); err != nil {
			t.Errorf("a newer tenure was broken, too: %v", err)
		}
		var slots []tenure.Lease
		for range 3 {
			x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "s", Slots: 3})
			if err != nil {
				t.Fatal(err)
			}
			slots = append(slots, x)
		}
		if err := l.Break(t.Context(), "s", holders(t, l, "s")[1:2]); err != nil {
			t.Errorf("break one of three: %v", err)
		}
		x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "s", Slots: 3})
		if err != nil {
			t.Fatalf("a claim in the place of the broken one: %v", err)
		}
		time.Sleep(term)
		lost := 0
		for _, x := range append(slots, x) {
			if x.Check() != nil {
				lost++
			}
		}
		if lost != 1 || x.Check() != nil {
			t.Errorf("one of three was broken, and %d are lost; the next: %v", lost, x.Check())
		}
	})
}

// TestBreakBesideOthers: one of three is broken, and with it one of fewer slots that has ended meanwhile. The
// others stay.
func TestBreakBesideOthers(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		gone := acquire(t, l, "s")
		ended := holders(t, l, "s")
		if err := gone.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all []tenure.Lease
		for range 3 {
			x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "s", Slots: 3})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		if err := l.Break(t.Context(), "s", append(holders(t, l, "s")[:1], ended...)); err != nil {
			t.Errorf("break of one beside two others, and of one that has ended: %v", err)
		}
		time.Sleep(term)
		for i, x := range all {
			if broken := x.Check() != nil; broken != (i == 0) {
				t.Errorf("the first of three was broken, and the one at %d: %v", i, x.Check())
			}
		}
	})
}

// TestBreakThatCannotLook: while it cannot be seen that the named tenure is over, a break that found no room does not
// say that it is.
func TestBreakThatCannotLook(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		var mu sync.Mutex
		claims, blind := map[machine.ID]bool{}, false
		faults[0].Plan = func(op register.Op) register.Fault {
			mu.Lock()
			defer mu.Unlock()
			if _, enters := op.Op.(register.Enter); enters && blind {
				claims[op.Writer] = true
			}
			if _, looks := op.Op.(quorumregister.Query); !blind || !looks || claims[op.Writer] {
				return register.None
			}
			return register.LostBefore
		}
		var all []tenure.Lease
		for range 2 {
			x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "s", Slots: 2})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		first := holders(t, l, "s")[:1]
		first[0].Slots = 1 // so that there is no room beside the second
		mu.Lock()
		blind = true
		mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 4*term)
		defer cancel()
		if err := l.Break(ctx, "s", first); err == nil {
			t.Errorf("it cannot be seen that a tenure is over, and break says so; its holder: %v", all[0].Check())
		}
	})
}

// TestBreakOfOneCutOff: a holder that cannot look goes on until its deadline, and no longer: that is
// what force costs.
func TestBreakOfOneCutOff(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		old, faults := all.open(t, storage.Options{})
		l, _ := all.open(t, storage.Options{})
		x := acquire(t, old, "x")
		faults[0].Hang()
		end := x.Deadline()
		if err := l.Break(t.Context(), "x", holders(t, l, "x")); err != nil {
			t.Fatal(err)
		}
		if x.Check() != nil || !x.Deadline().Equal(end) {
			t.Errorf("the holder: %v, with deadline %v, want it to hold until %v", x.Check(), x.Deadline(), end)
		}
		time.Sleep(time.Until(end))
		if err := x.Check(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("at its deadline the broken tenure is %v, want it lost", err)
		}
	})
}

// TestBreakInVain: a break ends when the stores do not answer for as long as a try waits, and tries no more.
func TestBreakInVain(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		acquire(t, l, "x")
		all := holders(t, l, "x")
		faults[0].Hang()
		began := time.Now()
		err := l.Break(t.Context(), "x", all)
		if took := time.Since(began); !errors.Is(err, tenure.ErrUnavailable) || took > 6*time.Second {
			t.Errorf("a break while no store answers: %v after %v, want %v after five seconds", err, took, tenure.ErrUnavailable)
		}
	})
}
