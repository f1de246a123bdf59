package storage_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestALossNamesTheTrouble: a holder that lost its lease because stores failed is told how they did.
func TestALossNamesTheTrouble(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		lease := acquire(t, l, "x")
		why := errors.New("the disk is on fire")
		faults[0].Fail(why)
		<-lease.Done()
		if err := lease.Err(); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, why) {
			t.Errorf("%v, want %v because of %v", err, tenure.ErrLost, why)
		}
	})
}

// TestALeaseSaysUntilWhen: with no store left, it is lost at the deadline that it said.
func TestALeaseSaysUntilWhen(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		lease := acquire(t, l, "x")
		faults[0].Fail(errors.New("unplugged"))
		time.Sleep(delay) // a renewal under way is over
		said := lease.Deadline()
		<-lease.Done()
		if late := time.Since(said).Abs(); late > time.Millisecond {
			t.Errorf("the deadline is %v apart from when it was lost", late)
		}
	})
}

// TestAHolderThatWasOverwritten hears of it by its next renewal, and not only at its deadline.
func TestAHolderThatWasOverwritten(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, _ := all.open(t, storage.Options{})
		store := all[0].Open()
		other := acquire(t, l, "x")
		theirs := store.Do([]register.Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
		if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease := acquire(t, l, "x")
		late := machine.Version{Seq: theirs.Version.Seq + 100, Writer: theirs.Version.Writer}
		store.Do([]register.Op{{Name: "x", Writer: late.Writer, Op: quorumregister.Put{Version: late, Data: theirs.Data}}})
		overwritten := time.Now()
		<-lease.Done()
		if err := lease.Err(); !errors.Is(err, tenure.ErrLost) || time.Since(overwritten) > term/2 {
			t.Errorf("%v, %v after it was overwritten; want %v by the next renewal, within %v", err, time.Since(overwritten), tenure.ErrLost, term/3)
		}
	})
}

// TestAReleaseThatStoresRefuse is not confirmed, though the machine has given up before the caller does.
func TestAReleaseThatStoresRefuse(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, 200*time.Millisecond, 5*time.Millisecond).open(t, storage.Options{})
		lease := acquire(t, l, "x")
		faults[0].Fail(errors.New("the disk is on fire"))
		began := time.Now()
		err := lease.Release(t.Context())
		if !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), "does not take our release") || time.Since(began) >= time.Second {
			t.Errorf("Release: %v after %v; want %v, and why, when the lease has ended by itself", err, time.Since(began), tenure.ErrUnavailable)
		}
	})
}

// TestWhoGivesUpLeavesTheQueue: a claim that waited and gave up has nobody behind it wait.
func TestWhoGivesUpLeavesTheQueue(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, _ := all.open(t, storage.Options{})
		acquire(t, l, "x")
		other, faults := all.open(t, storage.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := time.Now()
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, query := op.Op.(quorumregister.Query); query && time.Since(began) > term {
				cancel()
				time.Sleep(delay / 2) // a look is under way
			}
			return register.None
		}
		if _, err := other.Acquire(ctx, tenure.Claim{Name: "x"}); !held(err) {
			t.Fatalf("%v, want it held", err)
		}
		time.Sleep(delay)
		if s, err := l.Observe(t.Context(), "x"); err != nil || s.Waiting != 0 {
			t.Errorf("%+v, %v: want nobody to wait", s, err)
		}
	})
}

// TestASharerThatGivesUp before it was confirmed to hold leaves nothing that goes on.
func TestASharerThatGivesUp(t *testing.T) {
	simulate(t, func(t *testing.T) {
		c := oneClock()
		l, faults := newMemories(1, term, delay).open(t, storage.Options{Clock: c})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, beat := op.Op.(quorumregister.PutNote); beat {
				cancel()
			}
			return register.None
		}
		faults[0].Store = &slowReplies{Store: faults[0].Store}
		faults[0].Store.(*slowReplies).delay.Store(int64(delay / 8))
		if _, err := l.Acquire(ctx, tenure.Claim{Name: "x", Slots: 2}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want %v", err, context.Canceled)
		}
		time.Sleep(delay)
		if n := c.Waiting(); n != 0 {
			t.Errorf("it has left %d alarms", n)
		}
	})
}

// TestAReleaseAfterClose waits for nothing: Close has given up for all.
func TestAReleaseAfterClose(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		lease := acquire(t, l, "x")
		faults[0].Hang()
		l.Close()
		began := time.Now()
		if err := lease.Release(t.Context()); !errors.Is(err, tenure.ErrClosed) || time.Since(began) > 0 {
			t.Errorf("Release after Close: %v after %v, want %v at once", err, time.Since(began), tenure.ErrClosed)
		}
	})
}

// TestAReleaseOutlastsAShortTerm: nobody waits for the lease any more, and the Leaser is open.
func TestAReleaseOutlastsAShortTerm(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term/10, delay/10).open(t, storage.Options{})
		lease := acquire(t, l, "x")
		faults[0].Hang()
		if err := lease.Release(t.Context()); !errors.Is(err, tenure.ErrUnavailable) || errors.Is(err, tenure.ErrClosed) || !strings.Contains(err.Error(), "no answer until its deadline") {
			t.Errorf("a release that is not answered while the Leaser is open returns %v", err)
		}
	})
}

// TestCloseDoesNotWaitForALockDelay, by which the lease of a holder that died is kept back, nor for
// the end of a long lease.
func TestCloseDoesNotWaitForALockDelay(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, time.Minute, delay).open(t, storage.Options{})
		if _, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", LockDelay: time.Hour}); err != nil {
			t.Fatal(err)
		}
		faults[0].Hang()
		began := time.Now()
		if err := l.Close(); !errors.Is(err, tenure.ErrUnavailable) || time.Since(began) > 5*time.Second {
			t.Errorf("Close: %v after %v, want %v after some seconds", err, time.Since(began), tenure.ErrUnavailable)
		}
	})
}

// late is a clock whose alarms do not ring in time, as on a machine that was suspended.
type late struct {
	clock.Clock
	by atomic.Int64
}

func (c *late) Now() machine.Mono { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// TestCloseTellsNothingOfTheLost: Close returns no error for a lost lease, which cannot be
// released. Its holder knows from the lease.
func TestCloseTellsNothingOfTheLost(t *testing.T) {
	simulate(t, func(t *testing.T) {
		c := &late{Clock: oneClock()}
		l, _ := newMemories(1, term, delay).open(t, storage.Options{Clock: c})
		lease := acquire(t, l, "x")
		c.by.Store(int64(2 * term))
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v, want nothing to be told", err)
		}
		if err := lease.Check(); !errors.Is(err, tenure.ErrLost) {
			t.Errorf("the lease: %v, want %v", err, tenure.ErrLost)
		}
	})
}

// TestALateReleaseEndsALockDelay: a release that stores did not take goes on for as long as others
// would wait, lock delay and all, and its error says how long that is.
func TestALateReleaseEndsALockDelay(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, faults := all.open(t, storage.Options{})
		lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", LockDelay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		faults[0].Fail(register.ErrInjected)
		wait := (l.Takeover() + time.Hour).Round(time.Millisecond).String()
		if err := lease.Release(t.Context()); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), wait) {
			t.Errorf("Release: %v, want %v, and that the lease ends within %v", err, tenure.ErrUnavailable, wait)
		}
		time.Sleep(10 * term)
		faults[0].Heal()
		time.Sleep(term)
		other, _ := all.open(t, storage.Options{})
		if _, err := other.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
			t.Errorf("stores take the release after ten Terms: %v, want the lease to be free", err)
		}
	})
}
