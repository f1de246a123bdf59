package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

func acquire(t *testing.T, l tenure.Leaser, name string) tenure.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*term)
	defer cancel()
	lease, err := l.Acquire(ctx, tenure.Claim{Name: name, Holder: "holder"})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func held(err error) bool { return errors.As(err, new(tenure.HeldError)) }

func TestTTL(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		for _, ttl := range []time.Duration{0, term} {
			lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: ttl})
			if err != nil {
				t.Fatalf("a TTL of %v: %v", ttl, err)
			}
			if left := time.Until(lease.Deadline()); left < term/2 || left > term {
				t.Errorf("a TTL of %v is granted as %v, want %v", ttl, left, term)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for _, ttl := range []time.Duration{term + 1, term - 1, term / 10} {
			_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", TTL: ttl})
			if !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), fmt.Sprintf("all their leases last %v", term)) || !strings.Contains(err.Error(), "lease init --ttl") {
				t.Errorf("a TTL other than the Term, %v: %v, want %v that says how to make other stores", ttl, err, tenure.ErrClaim)
			}
		}
	})
}

// TestATryFindsTheDead: nobody waits for the lease of a holder that died, yet in the end a try gets
// it, even in another process. A living holder is never taken for dead.
func TestATryFindsTheDead(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		o := storage.Options{State: t.TempDir()}
		process := func() *storage.Leaser { l, _ := all.open(t, o); return l }
		try := func(l tenure.Leaser, name string) error {
			lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: name})
			if err == nil {
				err = lease.Release(t.Context())
			}
			return err
		}
		dead, faults := all.open(t, storage.Options{})
		alive, _ := all.open(t, storage.Options{})
		corpse := acquire(t, dead, "dead")
		lease := acquire(t, alive, "alive")
		faults[0].Hang()
		<-corpse.Done()

		for _, name := range []string{"dead", "alive"} {
			if err := try(process(), name); !held(err) {
				t.Errorf("the first try for %q: %v, want it held: nothing tells yet whether the holder is dead", name, err)
			}
		}
		time.Sleep(alive.Takeover() + 1)
		if err := try(process(), "dead"); err != nil {
			t.Errorf("a try of another process, after the time that the dead are left: %v", err)
		}
		if err := try(process(), "alive"); !held(err) {
			t.Errorf("a try for a lease with a live holder: %v, want it held", err)
		}
		if err := lease.Check(); err != nil {
			t.Errorf("the living holder: %v", err)
		}
		forgetful, _ := all.open(t, storage.Options{})
		if err := try(forgetful, "alive"); !held(err) {
			t.Errorf("a try without a memory: %v, want it held", err)
		}
	})
}

// TestWhoGaveUpWaitingLeavesWhatHeSaw: a claim that waited, and gave up before the dead holder could be told
// from one that lives, has seen something. So claims that each wait for less than it takes get the lease in
// the end, in another process even.
func TestWhoGaveUpWaitingLeavesWhatHeSaw(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		o := storage.Options{State: t.TempDir()}
		dead, faults := all.open(t, storage.Options{})
		corpse := acquire(t, dead, "x")
		faults[0].Hang()
		<-corpse.Done()

		began := time.Now()
		l, _ := all.open(t, o)
		ctx, cancel := context.WithTimeout(t.Context(), l.Takeover()/2)
		defer cancel()
		if _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); !held(err) {
			t.Fatalf("Acquire gave up after half of what it takes: %v, want it held", err)
		}
		time.Sleep(time.Until(began.Add(l.Takeover() + 2*delay)))
		next, _ := all.open(t, o)
		if _, err := next.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
			t.Errorf("a claim gave up waiting, and what it saw is lost: a try when the holder has been silent for long enough: %v", err)
		}
	})
}

// TestOnlookersFindTheDead: an Await returns when the holder has died, although nobody contends.
func TestOnlookersFindTheDead(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		dead, faults := all.open(t, storage.Options{})
		l, _ := all.open(t, storage.Options{})
		corpse := acquire(t, dead, "x")
		faults[0].Hang()
		s, err := l.Observe(t.Context(), "x")
		if err != nil || len(s.Holders) != 1 || s.Holders[0].Token != corpse.Token() {
			t.Fatalf("%+v, %v: want the holder", s, err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*term)
		defer cancel()
		if s, err = l.Await(ctx, s); err != nil || len(s.Holders) != 0 {
			t.Errorf("await a death: %+v, %v", s, err)
		}
		if d := time.Since(began); d < term/2 || d > 3*term {
			t.Errorf("it was noticed after %v, with a Term of %v", d, term)
		}
	})
}

// TestOneOfThreeHangs: one store that never answers costs nothing but a moment at Close.
func TestOneOfThreeHangs(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(3, term, delay).open(t, storage.Options{})
		faults[1].Hang()
		for range 3 {
			began := time.Now()
			lease := acquire(t, l, "x")
			if d := time.Since(began); d > term/2 {
				t.Errorf("a free lease took %v", d)
			}
			time.Sleep(term + term/2)
			if err := lease.Check(); err != nil {
				t.Fatalf("it was not renewed: %v", err)
			}
			began = time.Now()
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("release: %v", err)
			}
			if d := time.Since(began); d > term/2 {
				t.Errorf("the release took %v", d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		health, err := l.Health(ctx, "x")
		if err != nil || len(health) != 3 {
			t.Fatalf("%v, %v", health, err)
		}
		for i, h := range health {
			if (h.Err != nil) != (i == 1) || h.Stale {
				t.Errorf("store %d: %+v", i, h)
			}
		}
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// TestNoMajority: failing stores are told from a holder, and waited for.
func TestNoMajority(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(3, term, delay).open(t, storage.Options{})
		why := errors.New("the disk is on fire")
		faults[0].Fail(why)
		faults[2].Fail(why)
		_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
		if !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) || held(err) {
			t.Errorf("a try: %v, want %v because of %v", err, tenure.ErrUnavailable, why)
		}
		ctx, cancel := context.WithTimeout(t.Context(), term/5)
		defer cancel()
		_, err = l.Acquire(ctx, tenure.Claim{Name: "x"})
		if !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait: %v, want %v because of %v", err, tenure.ErrUnavailable, why)
		}
		if _, err := l.Observe(t.Context(), "x"); !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) {
			t.Errorf("a look: %v, want %v because of %v", err, tenure.ErrUnavailable, why)
		}
		if _, err := l.List(t.Context(), ""); !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) {
			t.Errorf("a list: %v, want %v because of %v", err, tenure.ErrUnavailable, why)
		}
		got := make(chan tenure.Lease)
		go func() { got <- acquire(t, l, "x") }()
		time.Sleep(term / 10)
		faults[0].Heal()
		if err := (<-got).Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestOneHangsAndOneFails: the claim goes on as soon as a majority does.
func TestOneHangsAndOneFails(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(3, term, delay).open(t, storage.Options{})
		faults[0].Hang()
		faults[1].Fail(errors.New("the disk is on fire"))
		got := make(chan tenure.Lease)
		go func() { got <- acquire(t, l, "x") }()
		time.Sleep(term / 10)
		faults[1].Heal()
		if err := (<-got).Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingHangsWithTheStores: a release and Close come back, with the error of the stores.
func TestNothingHangsWithTheStores(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		first, second := acquire(t, l, "x"), acquire(t, l, "y")
		faults[0].Hang()
		deadline := first.Deadline()
		if err := first.Release(t.Context()); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("release: %v, want %v", err, tenure.ErrUnavailable)
		}
		if late := time.Since(deadline).Abs(); late > time.Millisecond {
			t.Errorf("the release ended %v apart from the deadline of the lease, want it to end then", late)
		}
		if err := first.Check(); !errors.Is(err, tenure.ErrReleased) {
			t.Errorf("after the release Check returns %v, want %v", err, tenure.ErrReleased)
		}
		began := time.Now()
		_ = l.Close()
		if d := time.Since(began); d > 8*time.Second {
			t.Errorf("Close took %v", d)
		}
		if second.Check() == nil {
			t.Error("a lease is held after Close")
		}
	})
}

// TestCloseTells which releases were not confirmed.
func TestCloseTells(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		acquire(t, l, "x")
		faults[0].Hang()
		if err := l.Close(); !errors.Is(err, tenure.ErrUnavailable) || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("Close returns %v, though the release was not confirmed", err)
		}
	})
}

// TestWhatIsNoRecord: nobody's data is taken for a free name, or waited out.
func TestWhatIsNoRecord(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		set, err := register.NewSetBy(oneClock().Now, []register.Store{all[0].Open()})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		cell := set.Register("x")
		if _, err := cell.Write(t.Context(), []byte("mine, all mine")); err != nil {
			t.Fatal(err)
		}
		cell.Close()
		l, _ := all.open(t, storage.Options{})
		claim := tenure.Claim{Name: "x"}
		if _, err := l.Acquire(t.Context(), claim); !errors.Is(err, disklease.ErrRecord) {
			t.Errorf("Acquire: %v, want %v", err, disklease.ErrRecord)
		}
		if _, err := l.TryAcquire(t.Context(), claim); !errors.Is(err, disklease.ErrRecord) {
			t.Errorf("TryAcquire: %v, want %v", err, disklease.ErrRecord)
		}
		if _, err := l.Observe(t.Context(), "x"); !errors.Is(err, disklease.ErrRecord) {
			t.Errorf("Observe: %v, want %v", err, disklease.ErrRecord)
		}
	})
}

// TestAnotherStoreIsNotWaitedFor: if another store is in the place of the only one, waiting does
// not help. One of three in whose place another is counts as missing.
func TestAnotherStoreIsNotWaitedFor(t *testing.T) {
	for _, why := range []error{register.ErrForeign, register.ErrNewer, register.ErrMismatch} {
		simulate(t, func(t *testing.T) {
			l, faults := newMemories(1, term, delay).open(t, storage.Options{})
			faults[0].Fail(why)
			ctx, cancel := context.WithTimeout(t.Context(), 20*term)
			defer cancel()
			began := time.Now()
			if _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); !errors.Is(err, why) || errors.Is(err, tenure.ErrUnavailable) || ctx.Err() != nil {
				t.Errorf("Acquire where there is %v: %v after %v, want that at once", why, err, time.Since(began))
			}
			if _, err := l.Observe(ctx, "x"); !errors.Is(err, why) || errors.Is(err, tenure.ErrUnavailable) {
				t.Errorf("Observe where there is %v: %v", why, err)
			}
		})
		simulate(t, func(t *testing.T) {
			l, faults := newMemories(3, term, delay).open(t, storage.Options{})
			faults[0].Fail(why)
			if err := acquire(t, l, "x").Release(t.Context()); err != nil {
				t.Error(err)
			}
			faults[1].Fail(why)
			ctx, cancel := context.WithTimeout(t.Context(), term)
			defer cancel()
			if _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) {
				t.Errorf("Acquire with two of three missing: %v, want %v because of %v", err, tenure.ErrUnavailable, why)
			}
			faults[1].Heal()
			if err := acquire(t, l, "x").Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestASlowWrite: it is waited out like a stranger's, by a try if there is time for
// that.
func TestASlowWrite(t *testing.T) {
	simulate(t, func(t *testing.T) {
		slow := func(term time.Duration) *storage.Leaser {
			l, faults := newMemories(1, term, delay).open(t, storage.Options{})
			faults[0].Delay = 3 * delay
			first := true
			faults[0].Plan = func(op register.Op) register.Fault {
				if _, put := op.Op.(quorumregister.Put); put && first {
					first = false
					return register.Late
				}
				return register.None
			}
			return l
		}
		_, err := slow(10*time.Second).TryAcquire(t.Context(), tenure.Claim{Name: "x", Holder: "me"})
		wait := storage.Takeover(register.Header{Term: 10 * time.Second, Delay: delay, Drift: 1000})
		if he := (tenure.HeldError{}); !errors.Is(err, disklease.ErrSlow) || !errors.As(err, &he) || he.Holder != "me" || !he.Until.Equal(time.Now().Add(wait)) {
			t.Errorf("a try: %v, want it held by ourselves for %v because of %v", err, wait, disklease.ErrSlow)
		}
		for what, acquire := range map[string]func(l *storage.Leaser) (tenure.Lease, error){
			"a try": func(l *storage.Leaser) (tenure.Lease, error) {
				return l.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
			},
			"a wait": func(l *storage.Leaser) (tenure.Lease, error) { return l.Acquire(t.Context(), tenure.Claim{Name: "x"}) },
		} {
			l := slow(term)
			began := time.Now()
			lease, err := acquire(l)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			if d := time.Since(began); d < term || d > 3*term {
				t.Errorf("%s: it was waited out for %v, with a Term of %v", what, d, term)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if l.Delay() <= delay {
				t.Errorf("%s: δ is measured as %v, want more than %v", what, l.Delay(), delay)
			}
		}
	})
}

func TestList(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		for _, name := range []string{"a/1", "a/2", "a/3", "b"} {
			lease := acquire(t, l, name)
			if name == "a/2" {
				if err := lease.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		for prefix, want := range map[string][]string{"": {"a/1", "a/3", "b"}, "a/": {"a/1", "a/3"}, "c": {}, "/1": {}} {
			got, err := l.List(t.Context(), prefix)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("names with %q: %s %v", prefix, diff, err)
			}
		}
	})
}
