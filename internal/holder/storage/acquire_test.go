package storage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// atPut calls f, once, before the first write to the register of a lease.
func atPut(faults []*register.Faults, f func()) {
	done := false
	faults[0].Plan = func(op register.Op) register.Fault {
		if _, put := op.Op.(quorumregister.Put); put && !done {
			done = true
			f()
		}
		return register.None
	}
}

// TestASlowTryFindsAnother: a try whose write was slow does not wait when another holds the lease
// meanwhile, and names that holder. It would wait in vain.
func TestASlowTryFindsAnother(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		other, _ := all.open(t, storage.Options{})
		l, faults := all.open(t, storage.Options{})
		atPut(faults, func() { // both have found the name free, and the other's writes are the later ones
			if err := acquire(t, other, "x").Release(t.Context()); err != nil {
				t.Error(err)
			}
			acquire(t, other, "x")
		})
		began := time.Now()
		_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", Holder: "me"})
		if he := (tenure.HeldError{}); !errors.As(err, &he) || he.Holder != "holder" || errors.Is(err, disklease.ErrSlow) || time.Since(began) > term {
			t.Errorf("%v after %v, want it held by the other at once", err, time.Since(began))
		}
	})
}

// TestASlowTryBesideASharer: other holders of a shared lease do not keep a try from waiting for the
// record that its slow write left.
func TestASlowTryBesideASharer(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		other, _ := all.open(t, storage.Options{})
		if _, err := other.Acquire(t.Context(), tenure.Claim{Name: "x", Slots: 2}); err != nil {
			t.Fatal(err)
		}
		l, faults := all.open(t, storage.Options{})
		atPut(faults, func() { time.Sleep(3 * delay) })
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", Slots: 2}); err != nil {
			t.Errorf("a try whose write was slow, beside one that shares: %v", err)
		}
	})
}

// TestASlowTryKnowsItsLimit: a try waits for the record that its slow write left if there is time
// for that, and for the accesses after it. Else it ends at once: it does not wait in vain.
func TestASlowTryKnowsItsLimit(t *testing.T) {
	waited := 0
	for d := -36 * delay; d <= 0; d += 2 * delay {
		simulate(t, func(t *testing.T) {
			l, faults := newMemories(1, 5*time.Second+d, delay).open(t, storage.Options{})
			atPut(faults, func() { time.Sleep(3 * delay) })
			began := time.Now()
			_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
			switch {
			case err == nil:
				waited++
			case !errors.Is(err, disklease.ErrSlow) || time.Since(began) > 10*delay:
				t.Errorf("a try that has five seconds, and %v to wait: %v after %v, want the lease in the end, or at once that it was slow", l.Takeover(), err, time.Since(began))
			}
		})
	}
	if waited < 3 || waited > 15 {
		t.Errorf("%d tries of 19 waited, want those that have time for that", waited)
	}
}

// TestAWaitForOneself: a caller that gives up while it waits out a slow write of its own is told
// so. Nobody else is in the way.
func TestAWaitForOneself(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		atPut(faults, func() { time.Sleep(3 * delay) })
		ctx, cancel := context.WithTimeout(t.Context(), term/2)
		defer cancel()
		if _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); !errors.Is(err, disklease.ErrSlow) || !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("%v, want %v because of %v", err, tenure.ErrUnavailable, disklease.ErrSlow)
		}
	})
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		atPut(faults, func() { time.Sleep(3 * delay) })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(term/2, cancel)
		if _, err := l.TryAcquire(ctx, tenure.Claim{Name: "x"}); !errors.Is(err, disklease.ErrSlow) {
			t.Errorf("a try whose caller goes while it waits for itself: %v, want it to be because of %v", err, disklease.ErrSlow)
		}
	})
}

// TestNobodyIsInHisOwnWay: a claim does not wait for itself, though it stands in the register.
func TestNobodyIsInHisOwnWay(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, beat := op.Op.(quorumregister.PutNote); beat { // by which a sharer confirms that it holds
				cancel()
				time.Sleep(delay / 2)
			}
			return register.None
		}
		if _, err := l.Acquire(ctx, tenure.Claim{Name: "x", Slots: 2}); !errors.Is(err, context.Canceled) || held(err) {
			t.Errorf("%v, want %v alone: nobody else holds it", err, context.Canceled)
		}
	})
}

// TestAQuickerClaimThatIsGone: a try that lost to a claim which has been released since is refused,
// though nobody is left to name.
func TestAQuickerClaimThatIsGone(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		other, _ := all.open(t, storage.Options{})
		if err := acquire(t, other, "x").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		store := all[0].Open()
		left := store.Do([]register.Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
		l, faults := all.open(t, storage.Options{})
		atPut(faults, func() {
			time.AfterFunc(delay, func() {
				last := machine.Version{Seq: left.Version.Seq + 100, Writer: left.Version.Writer}
				store.Do([]register.Op{{Name: "x", Writer: last.Writer, Op: quorumregister.Put{Version: last, Data: left.Data}}})
			})
		})
		_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
		if he := (tenure.HeldError{}); !errors.As(err, &he) || he.Name != "x" || he.Holder != "another claim, which was quicker" {
			t.Errorf("%v, want a refusal by a claim that was quicker", err)
		}
	})
}

// TestWhatMakesNoLease: stores whose header makes no lease have no claims, and a caller is told.
func TestWhatMakesNoLease(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, delay*disklease.MinTerms-1, delay).open(t, storage.Options{})
		if _, err := l.Acquire(t.Context(), tenure.Claim{Name: "x"}); !errors.Is(err, tenure.ErrClaim) {
			t.Errorf("a Term too short for δ: %v, want %v", err, tenure.ErrClaim)
		}
	})
}

// TestWhatIsSaidOfAHolder to a caller that gave up waiting: its name and how long the lease may
// last, and nothing of trouble with the stores that is over.
func TestWhatIsSaidOfAHolder(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "x")
		l, faults := all.open(t, storage.Options{})
		n := 0
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, query := op.Op.(quorumregister.Query); query {
				if n++; n == 2 {
					return register.LostBefore
				}
			}
			return register.None
		}
		ctx, cancel := context.WithTimeout(t.Context(), term)
		defer cancel()
		_, err := l.Acquire(ctx, tenure.Claim{Name: "x", Holder: "me"})
		he := tenure.HeldError{}
		if !errors.As(err, &he) || errors.Is(err, tenure.ErrUnavailable) || n < 3 {
			t.Fatalf("%v, want it held", err)
		}
		if left := time.Until(he.Until); he.Holder != "holder" || left < term/2 || left > term {
			t.Errorf("it is said to be held by %q for %v, want it by %q for most of %v", he.Holder, left, "holder", term)
		}
	})
}
