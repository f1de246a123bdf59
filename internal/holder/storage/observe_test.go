package storage_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// deadContender puts the record of a claim that died during its first write into one store.
func deadContender(t *testing.T, into *register.Memory) {
	t.Helper()
	scratch := newMemories(1, term, delay)
	l, _ := scratch.open(t, storage.Options{Clock: clock.NewSimulated(1)})
	lease := acquire(t, l, "x")
	st := scratch[0].Open().Do([]register.Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := machine.ID(bytes.Repeat([]byte{0xff}, 16))
	data := bytes.ReplaceAll(st.Data, st.Version.Writer[:], dead[:])
	into.Open().Do([]register.Op{{Name: "x", Writer: dead, Op: quorumregister.Put{Version: machine.Version{Seq: 1, Writer: dead}, Data: data}}})
}

// The observation of an onlooker is evidence for claims. A record that only one of three stores has
// may be seen by him and not by the next claim, which holds then, beside one that takes the record
// for that of a dead holder.
func TestAnOnlookerIsNoWitnessOfARegularRead(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(time.Minute) }) // the accesses left behind end
			all := newMemories(3, term, delay)
			deadContender(t, all[0])
			looking, lf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
			other, of := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
			lf[2].Hang() // one hears stores 0 and 1
			of[0].Hang() // the other 1 and 2
			var observed atomic.Bool
			if readOnly {
				for _, f := range lf {
					f.Plan = func(op register.Op) register.Fault {
						if _, put := op.Op.(quorumregister.Put); put && !observed.Load() {
							return register.LostBefore
						}
						return register.None
					}
				}
			}
			s, err := looking.Observe(t.Context(), "x")
			if err != nil || len(s.Holders) != 1 {
				t.Fatalf("Observe, read-only %v: %+v, %v; want the claim that died", readOnly, s, err)
			}
			time.Sleep(looking.Takeover() + 100*time.Millisecond)
			observed.Store(true) // and no put of that look is on its way
			held := func(l *storage.Leaser) tenure.Lease {
				x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", Holder: "a claim"})
				if err != nil {
					t.Logf("read-only %v: %v", readOnly, err)
					return nil
				}
				return x
			}
			a, b := held(other), held(looking)
			if a != nil && b != nil && a.Check() == nil && b.Check() == nil {
				t.Errorf("two hold the lease, with tokens %d and %d: what an onlooker saw by a regular read was taken for evidence", a.Token(), b.Token())
			}
			if readOnly && a == nil {
				t.Error("the claim that cannot see the dead one's record is refused")
			}
		})
	}
}

// A look shows the state at its beginning: a holder that renewed during a long look is alive.
func TestALookThatTakesLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the accesses left behind end
		all := newMemories(1, term, delay)
		holder, hf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		looking, lf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		slow := &slowReplies{Store: lf[0].Store}
		lf[0].Store = slow
		for looking.Delay() < 4*delay { // so that a long look counts at all
			slow.delay.Store(int64(looking.Delay() * 3 / 2))
			if _, err := looking.Observe(t.Context(), "y"); err != nil {
				t.Fatal(err)
			}
		}
		slow.delay.Store(0)
		lease := acquire(t, holder, "x")
		if s, err := looking.Observe(t.Context(), "x"); err != nil || len(s.Holders) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		hf[0].Hang() // no renewal until just in time
		time.Sleep(looking.Takeover() - 380*time.Millisecond)
		slow.delay.Store(int64(400 * time.Millisecond))
		go func() {
			time.Sleep(10 * time.Millisecond)
			hf[0].Heal()
		}()
		s, err := looking.Observe(t.Context(), "x")
		if lease.Check() != nil {
			t.Fatal("the holder did not renew in time")
		}
		if err != nil || len(s.Holders) != 1 {
			t.Errorf("%+v, %v: a holder that renewed during the look is taken for dead", s, err)
		}
	})
}

// slowReplies is a Store whose replies take long to arrive.
type slowReplies struct {
	register.Store
	delay atomic.Int64
}

func (s *slowReplies) Do(ops []register.Op) []register.Reply {
	replies := s.Store.Do(ops)
	time.Sleep(time.Duration(s.delay.Load()))
	return replies
}

// The observation of a claim that was refused is evidence for later claims.
func TestARefusedClaimIsNoWitnessOfARegularRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the accesses left behind end
		all := newMemories(3, term, delay)
		deadContender(t, all[0])
		one, of := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		other, xf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		of[2].Hang() // one hears stores 0 and 1
		xf[0].Hang() // the other 1 and 2
		if _, err := one.TryAcquire(t.Context(), tenure.Claim{Name: "x", Holder: "one"}); err == nil {
			t.Fatal("a claim got past the record of another at once")
		}
		time.Sleep(one.Takeover() + 100*time.Millisecond)
		b, err := other.TryAcquire(t.Context(), tenure.Claim{Name: "x", Holder: "other"})
		if err != nil {
			return // it has seen the record that one had to write back
		}
		a, err := one.TryAcquire(t.Context(), tenure.Claim{Name: "x", Holder: "one"})
		if err == nil && a.Check() == nil && b.Check() == nil {
			t.Errorf("two hold the lease, with tokens %d and %d: claims read regularly", a.Token(), b.Token())
		}
	})
}

// Clocks may differ from true time by Drift: a holder ends that much earlier, and claims wait that
// much longer.
func TestDriftIsAllowedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the accesses left behind end
		const drift = 40_000
		all := newDrifting(1, term, delay, drift)
		holder, hf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		waiter, _ := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		looking, _ := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		began := time.Now()
		lease := acquire(t, holder, "x")
		hf[0].Hang() // no renewal
		if most := (term + 2*delay) * (1e6 - drift) / 1e6; lease.Deadline().Sub(began) > most+time.Millisecond {
			t.Errorf("the deadline is %v after the claim began, want %v at most, by a clock that may go slower by %d ppm", lease.Deadline().Sub(began), most, drift)
		}
		seen := time.Now()
		if _, err := looking.Observe(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		least := (term + 6*delay) * (1e6 + drift) / 1e6
		time.AfterFunc(least-time.Millisecond, func() {
			if s, err := looking.Observe(t.Context(), "x"); err != nil || len(s.Holders) != 1 {
				t.Errorf("an onlooker is shown %+v, %v after %v: the holder may live, by a clock that may go faster by %d ppm", s, err, time.Since(seen), drift)
			}
		})
		if _, err := waiter.Acquire(t.Context(), tenure.Claim{Name: "x", Holder: "waiter"}); err != nil {
			t.Fatal(err)
		}
		if time.Since(seen) < least {
			t.Errorf("the lease was taken over after %v, want %v at least, by a clock that may go faster by %d ppm", time.Since(seen), least, drift)
		}
	})
}

// A sharer's deadline counts from when its beat was begun, not from the answer.
func TestASharersDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // the accesses left behind end
		all := newMemories(1, term, delay)
		l, f := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		beats := &beatTimes{slowReplies: slowReplies{Store: f[0].Store}}
		f[0].Store = beats
		lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", Holder: "one", Slots: 2})
		if err != nil {
			t.Fatal(err)
		}
		beats.delay.Store(int64(10 * delay))
		for range 40 {
			time.Sleep(term / 10)
			if last := beats.last.Load(); last != nil && lease.Check() == nil && lease.Deadline().Sub(*last) > term+2*delay {
				t.Fatalf("the deadline is %v after the last beat that the store has, want %v at most", lease.Deadline().Sub(*last), term+2*delay)
			}
		}
		if err := lease.Check(); err != nil {
			t.Fatalf("the sharer did not renew: %v", err)
		}
		beats.delay.Store(0)
	})
}

// beatTimes is a Store that knows when the last note came.
type beatTimes struct {
	slowReplies
	last atomic.Pointer[time.Time]
}

func (s *beatTimes) Do(ops []register.Op) []register.Reply {
	for _, op := range ops {
		if _, ok := op.Op.(quorumregister.PutNote); ok {
			now := time.Now()
			s.last.Store(&now)
		}
	}
	return s.slowReplies.Do(ops)
}

// TestAwaitInTrouble: stores that fail for some time are no news of a holder, and trouble that no
// waiting cures ends an Await.
func TestAwaitInTrouble(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		lease := acquire(t, holder, "x")
		l, faults := all.open(t, storage.Options{})
		since, err := l.Observe(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		faults[0].Fail(register.ErrInjected)
		time.AfterFunc(term, faults[0].Heal)
		time.AfterFunc(2*term, func() { lease.Release(t.Context()) })
		began := time.Now()
		if s, err := l.Await(t.Context(), since); err != nil || len(s.Holders) != 0 || time.Since(began) < 2*term {
			t.Errorf("the store fails for %v, and the lease is released after %v: %+v, %v after %v", term, 2*term, s, err, time.Since(began))
		}

		given, cancel := context.WithCancelCause(t.Context())
		why := errors.New("nobody wants to know")
		cancel(why)
		if s, err := l.Await(given, since); !errors.Is(err, why) || !tenure.SameHolders(s, since) || s.Name != "x" {
			t.Errorf("an Await that is given up: %+v, %v; want what was known before, and %v", s, err, why)
		}

		me := machine.ID{7}
		all[0].Open().Do([]register.Op{{Name: "y", Writer: me, Op: quorumregister.Put{Version: machine.Version{Seq: 1, Writer: me}, Data: []byte("mine")}}})
		ctx, end := context.WithTimeout(t.Context(), 20*term)
		defer end()
		if _, err := l.Await(ctx, tenure.State{Name: "y"}); !errors.Is(err, disklease.ErrRecord) {
			t.Errorf("Await of what is no record: %v, want %v at once", err, disklease.ErrRecord)
		}
	})
}

// TestWhatALookShows: how many may share, and until when the lease may last: no longer than a Term
// from now, and no time that has passed, even when it may be that of a dead holder.
func TestWhatALookShows(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, term/disklease.MinTerms)
		holder, faults := all.open(t, storage.Options{})
		if _, err := holder.Acquire(t.Context(), tenure.Claim{Name: "x", Slots: 3}); err != nil {
			t.Fatal(err)
		}
		l, _ := all.open(t, storage.Options{})
		look := func(least, most time.Duration) {
			t.Helper()
			s, err := l.Observe(t.Context(), "x")
			if err != nil || len(s.Holders) != 1 || s.Holders[0].Slots != 3 {
				t.Fatalf("%+v, %v, want a holder of three", s, err)
			}
			if left := time.Until(s.Holders[0].Until); left < least || left > most {
				t.Errorf("the lease may last for another %v, want %v to %v", left, least, most)
			}
		}
		look(term*9/10, term)
		faults[0].Hang() // and the holder dies
		time.Sleep(term * 13 / 10)
		look(0, 0)
	})
}

// TestSlowLooksAreEvidence: where stores are known to be slow a look is given as long as they take.
// One that is cut off learns nothing, and never finds the dead.
func TestSlowLooksAreEvidence(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, state := newMemories(1, term, delay), t.TempDir()
		holder, _ := all.open(t, storage.Options{})
		l, faults := all.open(t, storage.Options{State: state})
		slow := &slowReplies{Store: faults[0].Store}
		faults[0].Store = slow
		for l.Delay() < 4*delay {
			slow.delay.Store(int64(l.Delay() * 3 / 2))
			if _, err := l.Observe(t.Context(), "y"); err != nil {
				t.Fatal(err)
			}
		}
		acquire(t, holder, "x")
		slow.delay.Store(int64(10 * delay))
		if s, err := l.Observe(t.Context(), "x"); err != nil || len(s.Holders) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		if n := witnessFiles(t, state); n != 1 {
			t.Errorf("a look that took %v, where δ is measured as %v, has left %d witnesses, want one", 10*delay, l.Delay(), n)
		}
		slow.delay.Store(0)
	})
}

// TestALookWithoutTheRightToWrite: while the stores disagree, an onlooker that may not write reads
// regularly. It takes no holder for dead then, whatever it has seen before, and the lease may last
// for a Term from that read, however long it had tried to read atomically.
func TestALookWithoutTheRightToWrite(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(3, term, term/disklease.MinTerms)
		holder, hf := all.open(t, storage.Options{})
		looking, lf := all.open(t, storage.Options{})
		var readOnly atomic.Bool
		for _, f := range lf {
			f.Plan = func(op register.Op) register.Fault {
				if _, put := op.Op.(quorumregister.Put); put && readOnly.Load() {
					time.Sleep(5 * term / disklease.MinTerms)
					return register.LostBefore
				}
				return register.None
			}
		}
		acquire(t, holder, "x")
		for _, f := range hf {
			f.Hang() // and the holder dies
		}
		time.Sleep(term / 10)
		if s, err := looking.Observe(t.Context(), "x"); err != nil || len(s.Holders) != 1 {
			t.Fatalf("%+v, %v, want the holder", s, err)
		}
		store := all[0].Open()
		var old quorumregister.State // a majority has the holder's record, perhaps without the first store
		for _, each := range all {
			if s := each.Open().Do([]register.Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State); s.Version.Compare(old.Version) > 0 {
				old = s
			}
		}
		newer := machine.Version{Seq: old.Version.Seq + 100, Writer: old.Version.Writer}
		store.Do([]register.Op{{Name: "x", Writer: newer.Writer, Op: quorumregister.Put{Version: newer, Data: old.Data}}})
		lf[2].Hang()
		readOnly.Store(true)
		time.Sleep(looking.Takeover() + term/10)
		s, err := looking.Observe(t.Context(), "x")
		if err != nil || len(s.Holders) != 1 {
			t.Fatalf("%+v, %v, of a regular read: want the holder, of whose death it is no evidence", s, err)
		}
		if left := time.Until(s.Holders[0].Until); left != term {
			t.Errorf("after a regular read the lease may last for another %v, want %v from that read", left, term)
		}
	})
}

// TestAwaitSeesAnotherHolder: a holder in the place of another is news, though they are as many.
func TestAwaitSeesAnotherHolder(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		lease := acquire(t, l, "x")
		since, err := l.Observe(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, l, "x")
		ctx, cancel := context.WithTimeout(t.Context(), 20*term)
		defer cancel()
		if s, err := l.Await(ctx, since); err != nil || len(s.Holders) != 1 || s.Holders[0].Token != next.Token() {
			t.Errorf("an Await, since token %d held, while %d does: %+v, %v", since.Holders[0].Token, next.Token(), s, err)
		}
	})
}
