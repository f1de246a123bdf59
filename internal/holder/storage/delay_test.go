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
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestASlowStore: claims leave the δ that was measured in the register, so that a write for which the
// δ of the header would not do is no reason to wait for a Term.
func TestASlowStore(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		var late atomic.Int64
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, put := op.Op.(quorumregister.Put); put {
				time.Sleep(time.Duration(late.Load()))
			}
			return register.None
		}
		late.Store(int64(3 * delay / 2)) // in time, and more than δ
		lease := acquire(t, l, "x")
		time.Sleep(3 * term)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l.Delay() < 2*delay {
			t.Fatalf("δ is measured as %v, though writes took %v", l.Delay(), time.Duration(late.Load()))
		}
		late.Store(int64(7 * delay / 2))
		began := time.Now()
		lease = acquire(t, l, "x")
		if d := time.Since(began); d > term {
			t.Errorf("δ was measured as %v, and a write of %v has to be waited out: a free lease is had after %v", l.Delay(), time.Duration(late.Load()), d)
		}
		time.Sleep(3 * term)
		if err := lease.Check(); err != nil {
			t.Errorf("a lease of a slow store: %v", err)
		}
		late.Store(int64(3 * delay))
		time.Sleep(100 * term)
		known := l.Delay() // and does not change any more
		for range 2 {      // the first leaves the δ that it knows to the second
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			began = time.Now()
			lease = acquire(t, l, "x")
			if d := time.Since(began); l.Delay() != known || d > term {
				t.Errorf("δ is known to be %v, then %v, and a claim waits out a write of %v: its lease is had after %v", known, l.Delay(), time.Duration(late.Load()), d)
			}
		}
	})
}

// TestStoresThatGetReadySlowly: a claim does not write before more than half of the stores are
// ready. Its first write would be taken for late, and be waited out for a Term.
func TestStoresThatGetReadySlowly(t *testing.T) {
	simulate(t, func(t *testing.T) {
		for _, n := range []int{1, 3, 4} {
			l, faults := newMemories(n, term, delay).open(t, storage.Options{})
			for i, f := range faults {
				f.Plan = func(op register.Op) register.Fault {
					if _, enters := op.Op.(register.Enter); enters && i >= n/2 {
						time.Sleep(6 * delay)
					}
					return register.None
				}
			}
			began := time.Now()
			lease := acquire(t, l, "x")
			if d := time.Since(began); d < 6*delay || d > 12*delay {
				t.Errorf("of %d stores: a free lease is had after %v, and a majority was ready after %v: want a little more", n, d, 6*delay)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStoresThatFailAtFirst: a store that fails is asked again, and is one that failed once,
// however often it fails. A claim that took it for several would not wait for the others.
func TestStoresThatFailAtFirst(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(3, term, delay).open(t, storage.Options{})
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, enters := op.Op.(register.Enter); enters {
				time.Sleep(8 * delay)
			}
			return register.None
		}
		began := time.Now()
		faults[1].Plan = func(op register.Op) register.Fault { // its disk is full
			if _, query := op.Op.(quorumregister.Query); !query && time.Since(began) < 7*delay {
				return register.LostBefore
			}
			return register.None
		}
		lease := acquire(t, l, "x")
		if d := time.Since(began); d < 7*delay || d > 16*delay {
			t.Errorf("one store fails for %v, one is ready after %v: a free lease is had after %v, want a little more", 7*delay, 8*delay, d)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestStoresThatAllFailAtFirst: all stores that failed are asked again, and not only the last of
// them: if another one hangs, each of them is needed.
func TestStoresThatAllFailAtFirst(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(3, term, delay).open(t, storage.Options{})
		began := time.Now()
		for _, f := range faults[:2] {
			f.Plan = func(register.Op) register.Fault {
				if time.Since(began) < 7*delay {
					return register.LostBefore
				}
				return register.None
			}
		}
		faults[2].Hang()
		ctx, cancel := context.WithTimeout(t.Context(), 10*term)
		defer cancel()
		if _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); err != nil {
			t.Errorf("one store hangs, and two failed for %v: no lease is had for ten Terms: %v", 7*delay, err)
		}
	})
}

// TestAStoreThatIsReadyIsNotBlamed: a caller that gives up is not told of the trouble that a store
// had before it was ready.
func TestAStoreThatIsReadyIsNotBlamed(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(3, term, delay).open(t, storage.Options{})
		var asked atomic.Int32
		faults[0].Plan = func(register.Op) register.Fault {
			if asked.Add(1) == 1 {
				return register.LostBefore
			}
			return register.None
		}
		faults[1].Hang()
		faults[2].Hang()
		ctx, cancel := context.WithTimeout(t.Context(), term)
		defer cancel()
		_, err := l.Acquire(ctx, tenure.Claim{Name: "x"})
		if !errors.Is(err, tenure.ErrUnavailable) || errors.Is(err, register.ErrInjected) || asked.Load() < 2 {
			t.Errorf("two stores hang, and one failed the first of %d times: %v, want %v without its old trouble", asked.Load(), err, tenure.ErrUnavailable)
		}
	})
}

// TestRenewal: Renewal returns the time of the latest renewal, from the beginning of its first
// access.
func TestRenewal(t *testing.T) {
	simulate(t, func(t *testing.T) {
		const late = delay / 4
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		faults[0].Delay = late
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, put := op.Op.(quorumregister.Put); put {
				return register.Late
			}
			return register.None
		}
		if d := l.Renewal(); d != 0 {
			t.Errorf("before there was any: %v", d)
		}
		acquire(t, l, "x")
		if d := l.Renewal(); d != 0 {
			t.Errorf("a claim that is held and was not renewed yet: %v, want 0", d)
		}
		for i := range 4 {
			time.Sleep(term / 2)
			// A read, a write, 2δ by a clock that may go slower, a read.
			if d := l.Renewal(); d < late+2*delay || d > late+3*delay {
				t.Errorf("look %d: a renewal took %v, want about %v and two δ, of %v", i, d, late, delay)
			}
		}
	})
}

// TestObsolete: stores may forget the record of a claim that was released, and keep the record of a
// claim that may hold.
func TestObsolete(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, _ := all.open(t, storage.Options{})
		set, err := register.NewSetBy(oneClock().Now, []register.Store{all[0].Open()})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		cell := set.Register("x")
		defer cell.Close()
		look := func() machine.Value {
			v, err := cell.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		lease := acquire(t, l, "x")
		if v := look(); storage.Obsolete(v, v.Version.Writer) {
			t.Error("the record of a lease that is held is obsolete")
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v := look(); !storage.Obsolete(v, v.Version.Writer) {
			t.Error("the record of a lease that was released is not obsolete")
		}
	})
}

// forgotten is a store in whose place a proposer finds another.
type forgotten struct {
	register.Store
	why error
}

func (f forgotten) Do(ops []register.Op) []register.Reply {
	replies := f.Store.Do(ops)
	for i, op := range ops {
		if _, query := op.Op.(quorumregister.Query); !query && op.Name == "x/" {
			replies[i] = register.Reply{Err: f.why}
		}
	}
	return replies
}

// TestWhyNothingIsAgreed: the error of a caller that gave up has the trouble of the stores, and
// says that too few work.
func TestWhyNothingIsAgreed(t *testing.T) {
	simulate(t, func(t *testing.T) {
		why := errors.New("the disk is on fire")
		set, err := register.NewSetBy(oneClock().Now, []register.Store{forgotten{newMemories(1, term, delay)[0].Open(), why}})
		if err != nil {
			t.Fatal(err)
		}
		l := storage.New(set, storage.Options{Clock: oneClock()})
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 4*term)
		defer cancel()
		_, err = l.Agree(ctx, "x", []byte("mine"))
		for _, want := range []error{tenure.ErrUnavailable, context.DeadlineExceeded, why, quorumregister.ErrMinority} {
			if !errors.Is(err, want) {
				t.Errorf("Agree while writes fail: %v, want %v to be told", err, want)
			}
		}
	})
}

// TestWhyOneWaits: of three stores one hangs and one fails, from the beginning or later. No access
// ends, so only the known trouble of each store can say why.
func TestWhyOneWaits(t *testing.T) {
	for _, later := range []bool{false, true} {
		simulate(t, func(t *testing.T) {
			l, faults := newMemories(3, term, delay).open(t, storage.Options{})
			why := errors.New("the disk is on fire")
			goWrong := func() {
				faults[0].Hang()
				faults[1].Fail(why)
			}
			asked := false
			if later {
				faults[1].Plan = func(op register.Op) register.Fault {
					if _, query := op.Op.(quorumregister.Query); !query || asked {
						return register.None
					}
					asked = true
					goWrong()
					why = register.ErrInjected // so does this one
					return register.LostBefore
				}
			} else {
				goWrong()
			}
			ctx, cancel := context.WithTimeout(t.Context(), term)
			defer cancel()
			_, err := l.Acquire(ctx, tenure.Claim{Name: "x"})
			if !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) || !strings.Contains(err.Error(), "store 1") {
				t.Errorf("Acquire, later %v: %v, want %v because of %v at store 1", later, err, tenure.ErrUnavailable, why)
			}
		})
	}
}

// TestAgreementInAnotherStore: Agree and Decided return trouble that no waiting cures at once.
func TestAgreementInAnotherStore(t *testing.T) {
	for _, why := range []error{register.ErrForeign, register.ErrNewer, register.ErrMismatch, register.ErrTooLong} {
		simulate(t, func(t *testing.T) {
			store := newMemories(1, term, delay)[0].Open()
			set, err := register.NewSetBy(oneClock().Now, []register.Store{forgotten{store, why}})
			if err != nil {
				t.Fatal(err)
			}
			l := storage.New(set, storage.Options{Clock: oneClock()})
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*term)
			defer cancel()
			began := time.Now()
			if _, err := l.Agree(ctx, "x", []byte("mine")); !errors.Is(err, why) || errors.Is(err, tenure.ErrUnavailable) || time.Since(began) > term {
				t.Errorf("Agree where writes find %v: %v after %v, want that at once", why, err, time.Since(began))
			}
		})
		simulate(t, func(t *testing.T) {
			l, faults := newMemories(1, term, delay).open(t, storage.Options{})
			faults[0].Fail(why)
			ctx, cancel := context.WithTimeout(t.Context(), 20*term)
			defer cancel()
			if _, _, err := l.Decided(ctx, "x"); !errors.Is(err, why) || errors.Is(err, tenure.ErrUnavailable) || ctx.Err() != nil {
				t.Errorf("Decided where there is %v: %v, want that at once", why, err)
			}
		})
	}
}

// TestATryThatCannotEnter: if a majority of the stores fail, a try returns, though another hangs.
func TestATryThatCannotEnter(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(3, term, delay).open(t, storage.Options{})
		faults[0].Fail(register.ErrInjected)
		faults[1].Fail(register.ErrInjected)
		faults[2].Hang()
		began := time.Now()
		_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
		if took := time.Since(began); !errors.Is(err, tenure.ErrUnavailable) || took > time.Second {
			t.Errorf("a try where two of three stores fail, and one hangs: %v after %v, want %v at once", err, took, tenure.ErrUnavailable)
		}
	})
}
