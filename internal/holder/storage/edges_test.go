package storage_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestCallsLeaveNoAlarm: a call that has ended leaves no alarm that would ring for it, or one that
// lasts long would be kept in memory for so long.
func TestCallsLeaveNoAlarm(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "held")
		c := oneClock()
		l, _ := all.open(t, storage.Options{Clock: c})
		for what, call := range calls(l) {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			time.Sleep(delay) // the accesses end
			if n := c.Waiting(); n != 0 {
				t.Fatalf("%s has ended, and has left %d alarms", what, n)
			}
		}
	})
}

// TestNothingBeginsAfterClose: every call is told that the Leaser is closed.
func TestNothingBeginsAfterClose(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for what, call := range calls(l) {
			if err := call(t.Context()); !errors.Is(err, tenure.ErrClosed) {
				t.Errorf("%s after Close: %v, want %v", what, err, tenure.ErrClosed)
			}
		}
	})
}

// TestNamesThatNoLeaseHas: they are refused by every call that takes one.
func TestNamesThatNoLeaseHas(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		for what, call := range map[string]func(name string) error{
			"Acquire":    func(name string) error { _, err := l.Acquire(t.Context(), tenure.Claim{Name: name}); return err },
			"TryAcquire": func(name string) error { _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: name}); return err },
			"Observe":    func(name string) error { _, err := l.Observe(t.Context(), name); return err },
			"Await":      func(name string) error { _, err := l.Await(t.Context(), tenure.State{Name: name}); return err },
			"Agree":      func(name string) error { _, err := l.Agree(t.Context(), name, nil); return err },
			"Decided":    func(name string) error { _, _, err := l.Decided(t.Context(), name); return err },
		} {
			for _, name := range []string{"", "x/"} {
				if err := call(name); !errors.Is(err, tenure.ErrClaim) {
					t.Errorf("%s of %q: %v, want %v", what, name, err, tenure.ErrClaim)
				}
			}
		}
	})
}

// TestWaitersLookFiftyTimesATerm, though accesses are so quick that they could look far more often.
func TestWaitersLookFiftyTimesATerm(t *testing.T) {
	simulate(t, func(t *testing.T) {
		const long = 10 * time.Second
		all := newMemories(1, long, time.Millisecond)
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "x")
		l, faults := all.open(t, storage.Options{})
		var looks atomic.Int64
		var looked atomic.Value // the register
		looked.Store("x")
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, query := op.Op.(quorumregister.Query); query && op.Name == looked.Load() {
				looks.Add(1)
			}
			return register.None
		}
		for what, wait := range map[string]func(ctx context.Context) error{
			"Agree": func(ctx context.Context) error {
				looked.Store("x/") // the agreement's, and not the lease's beside it
				defer looked.Store("x")
				_, err := l.Agree(ctx, "x", nil)
				return err
			},
			"Acquire": func(ctx context.Context) error {
				_, err := l.Acquire(ctx, tenure.Claim{Name: "x"})
				return err
			},
			"Await": func(ctx context.Context) error {
				s, err := l.Observe(ctx, "x")
				if err != nil {
					return err
				}
				_, err = l.Await(ctx, s)
				return err
			},
		} {
			looks.Store(0)
			ctx, cancel := context.WithTimeout(t.Context(), 2*long)
			if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s of what is held: %v, want %v", what, err, context.DeadlineExceeded)
			}
			cancel()
			if n := looks.Load(); n < 50 || n > 150 {
				t.Errorf("%s looks %d times in two Terms, want about 100", what, n)
			}
		}
	})
}

// TestAReleaseIsWaitedFor until the deadline, when the lease ends anyway, and for a second if that is longer.
func TestAReleaseIsWaitedFor(t *testing.T) {
	for _, c := range []struct{ hung, healed time.Duration }{
		{0, term * 4 / 5},
		{term * 3 / 5, time.Second * 9 / 10}, // the deadline passes meanwhile
	} {
		simulate(t, func(t *testing.T) {
			l, faults := newMemories(1, term, delay).open(t, storage.Options{})
			lease := acquire(t, l, "x")
			faults[0].Hang()
			time.Sleep(c.hung)
			time.AfterFunc(c.healed, faults[0].Heal)
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("the stores hang for %v, and for %v from the release on: %v, want it confirmed", c.hung, c.healed, err)
			}
		})
	}
}

// slowFailure is a store that takes a while to fail, once it does.
type slowFailure struct {
	register.Store
	why   error
	fails *atomic.Bool
}

func (s slowFailure) Do(ops []register.Op) []register.Reply {
	if !s.fails.Load() {
		return s.Store.Do(ops)
	}
	time.Sleep(delay / 4)
	replies := make([]register.Reply, len(ops))
	for i := range replies {
		replies[i].Err = s.why
	}
	return replies
}

// TestAHealthThatIsGivenUp leaves the store that hung as it is: it works again when it answers.
func TestAHealthThatIsGivenUp(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		faults[0].Hang()
		ctx, cancel := context.WithTimeout(t.Context(), delay)
		defer cancel()
		if health, err := l.Health(ctx, "x"); err != nil || len(health) != 1 || health[0].Err == nil || health[0].Took != 0 {
			t.Errorf("of a store that hangs: %+v, %v; want that it does not answer", health, err)
		}
		faults[0].Heal()
		ctx, end := context.WithTimeout(t.Context(), 20*term)
		defer end()
		if _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); err != nil {
			t.Errorf("the store hung while it was asked for its health, and answers again: %v", err)
		}
	})
}

// TestHealth: Health returns the time that each store took, and which one went back.
func TestHealth(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(3, term, delay)
		l, faults := all.open(t, storage.Options{})
		why, fails := errors.New("the disk is on fire"), new(atomic.Bool)
		faults[0].Store = slowFailure{faults[0].Store, why, fails}
		faults[2].Delay = delay / 2
		faults[2].Plan = func(register.Op) register.Fault { return register.Late }
		restore := all[1].Backup()
		lease := acquire(t, l, "x")
		restore()
		time.Sleep(term) // the holder sees that, for store 1 answers before store 2
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(delay)
		fails.Store(true)
		check := func(when string, back int) {
			t.Helper()
			health, err := l.Health(t.Context(), "y")
			if err != nil || len(health) != 3 {
				t.Fatal(health, err)
			}
			for i, h := range health {
				if h.Err != nil && h.Took != 0 {
					t.Errorf("%s: store %d fails, and took %v for it", when, i, h.Took)
				}
				if h.Store != i || h.Stale != (i == back) || errors.Is(h.Err, why) != (i == 0) || (h.Took == delay/2) != (i == 2) {
					t.Errorf("%s: store %d: %+v, want 0 to fail, 2 to take %v, and %d to be stale", when, i, h, delay/2, back)
				}
			}
		}
		check("store 1 was restored from a backup", 1)
		time.Sleep(term / 4)
		check("a lease from before may last", 1)
		time.Sleep(4 * term)
		check("long after that", -1)
	})
}

// TestAgreeWaitsForStores that do not answer at first.
func TestAgreeWaitsForStores(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		faults[0].Fail(errors.New("the disk is on fire"))
		time.AfterFunc(term, faults[0].Heal)
		ctx, cancel := context.WithTimeout(t.Context(), 20*term)
		defer cancel()
		if value, err := l.Agree(ctx, "x", []byte("mine")); err != nil || string(value) != "mine" {
			t.Errorf("Agree, while the store fails for a Term: %q, %v; want it to be waited for", value, err)
		}
	})
}

// TestCloseEndsWhatWaits, and says that it was Close.
func TestCloseEndsWhatWaits(t *testing.T) {
	for what, wait := range map[string]func(ctx context.Context, l *storage.Leaser) error{
		"Acquire": func(ctx context.Context, l *storage.Leaser) error {
			_, err := l.Acquire(ctx, tenure.Claim{Name: "held"})
			return err
		},
		"Await": func(ctx context.Context, l *storage.Leaser) error {
			s, err := l.Observe(ctx, "held")
			if err != nil {
				return err
			}
			_, err = l.Await(ctx, s)
			return err
		},
		"Agree": func(ctx context.Context, l *storage.Leaser) error {
			_, err := l.Agree(ctx, "held", nil)
			return err
		},
	} {
		simulate(t, func(t *testing.T) {
			all := newMemories(1, term, delay)
			holder, _ := all.open(t, storage.Options{})
			acquire(t, holder, "held")
			l, _ := all.open(t, storage.Options{})
			ended := make(chan error, 1)
			go func() { ended <- wait(t.Context(), l) }()
			time.Sleep(term / 2)
			synctest.Wait()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if err := <-ended; !errors.Is(err, tenure.ErrClosed) || errors.Is(err, tenure.ErrUnavailable) {
				t.Errorf("%s, ended by Close: %v, want %v", what, err, tenure.ErrClosed)
			}
		})
	}
}

// TestSpec: zero fields are chosen, and a spec that makes no lease is refused.
func TestSpec(t *testing.T) {
	h, err := storage.Spec{Delay: delay}.Header(3)
	if err != nil || h.Term != tenure.DefaultTTL || h.Drift != 1000 || h.Delay != delay || h.Of != 3 || h.Index != 0 {
		t.Errorf("the defaults: %+v, %v", h, err)
	}
	other, err := storage.Spec{Term: disklease.MinTerms * delay, Delay: delay, Drift: 7}.Header(1)
	if err != nil || other.Term != disklease.MinTerms*delay || other.Drift != 7 || other.Of != 1 {
		t.Errorf("as short a Term as δ allows: %+v, %v", other, err)
	}
	if h.Set == other.Set {
		t.Errorf("two sets have one identity, %v", h.Set)
	}
	if _, err := (storage.Spec{Term: disklease.MinTerms*delay - 1, Delay: delay}).Header(1); err == nil {
		t.Error("a Term too short for δ is accepted")
	} else if want := fmt.Sprintf("make them at least %v", disklease.MinTerms*delay); !strings.Contains(err.Error(), want) {
		t.Errorf("a Term too short for δ: got %v, want that it says %q", err, want)
	}
	if _, err := (storage.Spec{Delay: tenure.DefaultTTL/disklease.MinTerms + 1}).Header(1); err == nil {
		t.Error("a δ too long for the usual Term is accepted")
	}
}

// TestATryDoesNotWaitForever: it waits for stores that hang for five seconds, or 16 δ, and says that they
// do not answer. That is no deadline of the caller's.
func TestATryDoesNotWaitForever(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{delay: 5 * time.Second, time.Second: 16 * time.Second} {
		simulate(t, func(t *testing.T) {
			l, faults := newMemories(1, 50*d, d).open(t, storage.Options{})
			faults[0].Hang()
			began := time.Now()
			_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
			if took := time.Since(began); took != want || !errors.Is(err, tenure.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with a δ of %v, a try in stores that hang: %v after %v, want %v after %v", d, err, took, tenure.ErrUnavailable, want)
			}
		})
	}
}

// TestCloseTellsOfLeasesOnly: a claim that waited held nothing, so nothing is left of it.
func TestCloseTellsOfLeasesOnly(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "x")
		l, faults := all.open(t, storage.Options{})
		ended := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), tenure.Claim{Name: "x"})
			ended <- err
		}()
		time.Sleep(term / 2)
		faults[0].Hang()
		if err := l.Close(); err != nil {
			t.Errorf("Close of a Leaser that held nothing, in a store that hangs: %v", err)
		}
		if err := <-ended; !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("the claim that waited: %v, want %v", err, tenure.ErrClosed)
		}
	})
}

// TestAListHasWhatIsWaitedFor, though nobody holds it yet.
func TestAListHasWhatIsWaitedFor(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		lease := acquire(t, holder, "x")
		waiter, faults := all.open(t, storage.Options{})
		go waiter.Acquire(t.Context(), tenure.Claim{Name: "x"})
		time.Sleep(term / 2)
		faults[0].Hang() // it cannot take over at once
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if names, err := holder.List(t.Context(), ""); err != nil || len(names) != 1 {
			t.Errorf("%q, %v: want the name that is waited for", names, err)
		}
	})
}

// TestTakeover has room for accesses, and for clocks that differ.
func TestTakeover(t *testing.T) {
	h := register.Header{Term: 10 * time.Second, Delay: 100 * time.Millisecond, Drift: 40_000}
	if got, want := storage.Takeover(h), 10600*time.Millisecond*104/100; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestNoVersionIsLeft: a store whose numbers have been used up is not waited for.
func TestNoVersionIsLeft(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		last := machine.Version{Seq: math.MaxUint64, Writer: machine.ID{1}}
		all[0].Open().Do([]register.Op{{Name: "y", Writer: last.Writer, Op: quorumregister.Put{Version: last}}})
		l, _ := all.open(t, storage.Options{})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*term)
		defer cancel()
		for what, call := range map[string]func() error{
			"Acquire":    func() error { _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); return err },
			"TryAcquire": func() error { _, err := l.TryAcquire(ctx, tenure.Claim{Name: "x"}); return err },
		} {
			if err := call(); err == nil || errors.Is(err, tenure.ErrUnavailable) || time.Since(began) > term {
				t.Errorf("%s: %v after %v, want to be told at once", what, err, time.Since(began))
			} else {
				t.Log(err)
			}
		}
	})
}

// TestWhyAReleaseIsNotConfirmed: its error has the end of the caller's patience, and the trouble
// with the stores.
func TestWhyAReleaseIsNotConfirmed(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		lease := acquire(t, l, "x")
		why, impatient := errors.New("the disk is on fire"), errors.New("no more patience")
		faults[0].Fail(why)
		ctx, cancel := context.WithTimeoutCause(t.Context(), term/4, impatient)
		defer cancel()
		err := lease.Release(ctx)
		for _, want := range []error{tenure.ErrUnavailable, why, impatient} {
			if !errors.Is(err, want) {
				t.Errorf("Release while the store fails: %v, want %v to be told", err, want)
			}
		}
	})
}

// TestCloseWaitsForSlowStores: for releases to be confirmed it gives them eight δ.
func TestCloseWaitsForSlowStores(t *testing.T) {
	simulate(t, func(t *testing.T) {
		const slow = time.Second
		l, faults := newMemories(1, 60*slow, slow).open(t, storage.Options{})
		lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		faults[0].Hang()
		time.AfterFunc(7*slow, faults[0].Heal)
		if err := l.Close(); err != nil {
			t.Errorf("the store hangs for seven δ, of %v: %v, want the release to be confirmed", slow, err)
		}
		if err := lease.Check(); !errors.Is(err, tenure.ErrReleased) {
			t.Errorf("after Close: %v, want %v", err, tenure.ErrReleased)
		}
	})
}

// TestAFreeNameLeavesNoWitness: nothing is kept of a name that nobody holds.
func TestAFreeNameLeavesNoWitness(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, state := newMemories(1, term, delay), t.TempDir()
		l, _ := all.open(t, storage.Options{State: state})
		for range 2 {
			if _, err := l.Observe(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			lease := acquire(t, l, "x")
			if _, err := l.Observe(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if n := witnessFiles(t, state); n != 1 {
				t.Errorf("%d witnesses of a name that is held, want one", n)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			again := acquire(t, l, "x")
			if n := witnessFiles(t, state); n != 0 {
				t.Errorf("%d witnesses of a name that this process has got since", n)
			}
			if err := again.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Observe(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			if n := witnessFiles(t, state); n != 0 {
				t.Errorf("%d witnesses of a name that nobody holds", n)
			}
		}
	})
}

func witnessFiles(t *testing.T, state string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "witness", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestASharerThatCannotConfirm: a claim that others may share is lost before its caller knew of it,
// for the store takes no beats. It tries again.
func TestASharerThatCannotConfirm(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		began := time.Now()
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, beat := op.Op.(quorumregister.PutNote); beat && time.Since(began) < 2*term {
				return register.LostBefore
			}
			return register.None
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*term)
		defer cancel()
		lease, err := l.Acquire(ctx, tenure.Claim{Name: "x", Slots: 2})
		if err != nil || lease.Check() != nil || time.Since(began) < 2*term {
			t.Errorf("no beat is taken for two Terms: %v, %v after %v; want a lease then", lease, err, time.Since(began))
		}
	})
}
