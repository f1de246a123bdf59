package storage_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// kernel knows the lifelines of a machine, and is its kernel: it knows what ends.
type kernel struct {
	mu     sync.Mutex
	tied   map[machine.ID]uint64 // the stamp by which each has held
	ended  map[machine.ID]uint64
	cut    int // how many were
	forgot int
	fails  error
	hangs  chan struct{} // all calls, until it is closed; nil: none
}

func newKernel() *kernel {
	return &kernel{tied: map[machine.ID]uint64{}, ended: map[machine.ID]uint64{}}
}

// enter is the beginning of a call.
func (k *kernel) enter() {
	k.mu.Lock()
	hangs := k.hangs
	k.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	k.mu.Lock()
}

func (k *kernel) Tie(id machine.ID) (storage.Lifeline, error) {
	k.enter()
	defer k.mu.Unlock()
	if k.fails != nil {
		return nil, k.fails
	}
	k.tied[id] = 0
	return kernelLine{k, id}, nil
}

func (k *kernel) Ended(id machine.ID, stamp uint64) bool {
	k.enter()
	defer k.mu.Unlock()
	held, ended := k.ended[id]
	return ended && held == stamp
}

func (k *kernel) Forget(id machine.ID) {
	k.enter()
	defer k.mu.Unlock()
	delete(k.ended, id)
	k.forgot++
}

type kernelLine struct {
	k  *kernel
	id machine.ID
}

func (l kernelLine) Held(stamp uint64) error {
	l.k.enter()
	defer l.k.mu.Unlock()
	l.k.tied[l.id] = stamp
	return nil
}

func (l kernelLine) Cut() {
	l.k.enter()
	defer l.k.mu.Unlock()
	delete(l.k.tied, l.id)
	l.k.cut++
}

// kill ends all processes that have a lifeline.
func (k *kernel) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, stamp := range k.tied {
		k.ended[id] = stamp
	}
	clear(k.tied)
}

func (k *kernel) count() (tied, cut int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.tied), k.cut
}

// killed has a process acquire a name and die. Its claim's accesses arrive nowhere from then on.
func killed(t *testing.T, all memories, k *kernel, c tenure.Claim) (token uint64) {
	t.Helper()
	l, faults := all.open(t, storage.Options{Lifelines: k})
	lease, err := l.Acquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(term / 2) // with a renewal behind it
	for _, f := range faults {
		f.Hang()
	}
	k.kill()
	return lease.Token()
}

// soon is long enough for a claim that learns that nobody is in its way.
const soon = term / 10

// One that waits, and one that tries, get the lease of a holder whose process has ended at once, with a
// greater token, and onlookers see that nobody holds it.
func TestTheLeaseOfAProcessThatEnded(t *testing.T) {
	for what, next := range map[string]func(context.Context, *storage.Leaser) (tenure.Lease, error){
		"waits": func(ctx context.Context, l *storage.Leaser) (tenure.Lease, error) {
			return l.Acquire(ctx, tenure.Claim{Name: "x"})
		},
		"tries": func(ctx context.Context, l *storage.Leaser) (tenure.Lease, error) {
			return l.TryAcquire(ctx, tenure.Claim{Name: "x"})
		},
	} {
		simulate(t, func(t *testing.T) {
			all, k := newMemories(1, term, delay), newKernel()
			token := killed(t, all, k, tenure.Claim{Name: "x"})
			l, _ := all.open(t, storage.Options{Lifelines: k})
			if s, err := l.Observe(t.Context(), "x"); err != nil || len(s.Holders) > 0 {
				t.Errorf("one that %s: before, an onlooker sees %+v, %v; want nobody", what, s.Holders, err)
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*term)
			defer cancel()
			lease, err := next(ctx, l)
			if took := time.Since(began); err != nil || took > soon {
				t.Fatalf("one that %s for the lease of a process that has ended gets it after %v, %v; want within %v", what, took, err, soon)
			}
			if lease.Token() <= token {
				t.Errorf("one that %s gets token %d after %d", what, lease.Token(), token)
			}
			time.Sleep(soon)
			if k.mu.Lock(); k.forgot != 1 {
				t.Errorf("one that %s: %d lifelines are forgotten, want that of the holder before", what, k.forgot)
			}
			k.mu.Unlock()
		})
	}
}

// One that waits already when the process of the holder ends has the lease soon after.
func TestTheEndIsHeard(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, k := newMemories(1, term, delay), newKernel()
		l, faults := all.open(t, storage.Options{Lifelines: k})
		acquire(t, l, "x")
		other, _ := all.open(t, storage.Options{Lifelines: newHearing(k)})
		got := make(chan error, 1)
		go func() {
			_, err := other.Acquire(t.Context(), tenure.Claim{Name: "x"})
			got <- err
		}()
		time.Sleep(term / 2)
		select {
		case err := <-got:
			t.Fatalf("one that waits gets the lease of a living holder: %v", err)
		default:
		}
		for _, f := range faults {
			f.Hang()
		}
		k.kill()
		began := time.Now()
		if err := <-got; err != nil || time.Since(began) > soon {
			t.Errorf("one that waits gets the lease %v after the holder's end, %v; want within %v", time.Since(began), err, soon)
		}
	})
}

// hearing is a kernel whose ends a process hears of, and which does not end that process.
type hearing struct{ *kernel }

func newHearing(k *kernel) hearing { return hearing{k} }

func (h hearing) Tie(id machine.ID) (storage.Lifeline, error) { return newKernel().Tie(id) }

// A lock delay is waited out, and so is a holder without a lifeline.
func TestEndsThatAreWaitedFor(t *testing.T) {
	for what, c := range map[string]struct {
		claim tenure.Claim
		fails error
		most  int
	}{
		"a lock delay": {claim: tenure.Claim{Name: "x", LockDelay: time.Second}},
		"no lifeline":  {claim: tenure.Claim{Name: "x"}, fails: errors.New("no room")},
	} {
		simulate(t, func(t *testing.T) {
			all, k := newMemories(1, term, delay), newKernel()
			k.fails = c.fails
			killed(t, all, k, c.claim)
			l, _ := all.open(t, storage.Options{Lifelines: k})
			if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !held(err) {
				t.Errorf("%s: a try for the lease of a process that has ended: %v, want that it is held", what, err)
			}
			began := time.Now()
			if _, err := l.Acquire(t.Context(), tenure.Claim{Name: "x"}); err != nil || time.Since(began) < term/2 {
				t.Errorf("%s: waited for %v, %v; want its end", what, time.Since(began), err)
			}
		})
	}
}

// The write of a claim got stuck and came in over the record of another, which holds; and its process has
// ended. Its end is not the end of the holder.
func TestTheEndOfOneThatNeverHeld(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, k := newMemories(1, term, delay), newKernel()
		l, faults := all.open(t, storage.Options{Lifelines: k})
		var passes atomic.Bool
		faults[0].Plan = func(op register.Op) register.Fault {
			if isPut(op) && !passes.Load() {
				return register.Stuck
			}
			return register.None
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*delay)
		defer cancel()
		go func() { _, _ = l.Acquire(ctx, tenure.Claim{Name: "x"}) }()
		time.Sleep(2 * delay) // it has read that the name is free, and writes
		holder, _ := all.open(t, storage.Options{})
		lease := acquire(t, holder, "x")
		k.kill()
		passes.Store(true)
		faults[0].Land()
		other, _ := all.open(t, storage.Options{Lifelines: k})
		if next, err := other.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err == nil && lease.Check() == nil {
			t.Errorf("two hold: tokens %d and %d", lease.Token(), next.Token())
		}
	})
}

// A lifeline lasts as long as its tenure, whichever way that ends.
func TestALifelineLastsAsLongAsItsTenure(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, k := newMemories(1, term, delay), newKernel()
		l, faults := all.open(t, storage.Options{Lifelines: k})
		want := func(what string, tied, cut int) {
			t.Helper()
			time.Sleep(time.Millisecond)
			if gotTied, gotCut := k.count(); gotTied != tied || gotCut != cut {
				t.Errorf("%s: %d lifelines, and %d are cut; want %d and %d", what, gotTied, gotCut, tied, cut)
			}
		}
		a := acquire(t, l, "a")
		want("held", 1, 0)
		if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "a"}); !held(err) {
			t.Fatal(err)
		}
		time.Sleep(term)
		want("refused", 1, 1)
		if err := a.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		want("released", 0, 2)
		b := acquire(t, l, "b")
		faults[0].Hang()
		<-b.Done()
		want("lost", 0, 3)
		faults[0].Heal()
		acquire(t, l, "c")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		want("closed", 0, 4)
	})
}

// Lifelines that hang cost no call more than its lease: it goes on without, or ends with its context.
func TestLifelinesThatHang(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, k := newMemories(1, term, delay), newKernel()
		l, _ := all.open(t, storage.Options{Lifelines: k})
		lease := acquire(t, l, "x")
		k.mu.Lock()
		k.hangs = make(chan struct{})
		k.mu.Unlock()
		other, _ := all.open(t, storage.Options{Lifelines: k})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), term)
		defer cancel()
		if _, err := other.TryAcquire(ctx, tenure.Claim{Name: "x"}); err == nil || time.Since(began) > term+time.Second {
			t.Errorf("a try ends after %v with %v", time.Since(began), err)
		}
		began = time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), term)
		defer cancel()
		if _, err := other.Observe(ctx, "x"); time.Since(began) > term+time.Second {
			t.Errorf("an Observe ends after %v with %v", time.Since(began), err)
		}
		time.Sleep(2 * term)
		if err := lease.Check(); err != nil {
			t.Errorf("a holder whose lifeline hangs: %v", err)
		}
		began = time.Now()
		if err := lease.Release(t.Context()); err != nil || time.Since(began) > term {
			t.Errorf("its release takes %v, %v", time.Since(began), err)
		}
		began = time.Now()
		if err := l.Close(); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("Close takes %v, %v", time.Since(began), err)
		}
		close(k.hangs)
		time.Sleep(term)
		if tied, _ := k.count(); tied > 0 {
			t.Errorf("%d lifelines are left that came too late", tied)
		}
	})
}

// A lifeline that hung while its lease was renewed notes the latest stamp, and none that is outdated: else others would
// have to wait for the end of a holder whose process has ended.
func TestALifelineNotesTheLatestStamp(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, k := newMemories(1, term, delay), newKernel()
		l, faults := all.open(t, storage.Options{Lifelines: k})
		acquire(t, l, "x")
		hangs := make(chan struct{})
		k.mu.Lock()
		k.hangs = hangs
		k.mu.Unlock()
		time.Sleep(2 * term) // several renewals
		k.mu.Lock()
		k.hangs = nil
		k.mu.Unlock()
		close(hangs)
		time.Sleep(time.Millisecond)
		for _, f := range faults {
			f.Hang() // and no renewal comes after it
		}
		k.kill()
		next, _ := all.open(t, storage.Options{Lifelines: k})
		began := time.Now()
		lease, err := next.TryAcquire(t.Context(), tenure.Claim{Name: "x"})
		if err != nil || time.Since(began) > soon {
			t.Errorf("the lease of a process that has ended, behind a lifeline that hung: %v after %v", err, time.Since(began))
		} else if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		for _, f := range faults {
			f.Heal()
		}
	})
}

// So many claims of a process are tied and no more, and the others are held all the same.
func TestManyLifelines(t *testing.T) {
	simulate(t, func(t *testing.T) {
		const most = 256
		all, k := newMemories(1, term, delay), newKernel()
		l, _ := all.open(t, storage.Options{Lifelines: k})
		var leases []tenure.Lease
		for i := range most + 2 {
			leases = append(leases, acquire(t, l, strings.Repeat("x", i+1)))
		}
		if tied, _ := k.count(); tied != most {
			t.Errorf("%d claims are tied, want %d", tied, most)
		}
		if err := leases[0].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		acquire(t, l, "one more")
		if tied, _ := k.count(); tied != most {
			t.Errorf("one was released and one was acquired: %d claims are tied, want %d", tied, most)
		}
	})
}

// The place of a claim that waited, and whose process has ended, is free at once for those behind it.
func TestTheEndOfOneThatWaits(t *testing.T) {
	for _, ends := range []bool{true, false} {
		simulate(t, func(t *testing.T) {
			all, k := newMemories(1, term, delay), newKernel()
			holder, _ := all.open(t, storage.Options{})
			lease := acquire(t, holder, "x")
			waits := func(lines storage.Lifelines) (*register.Faults, chan error) {
				l, faults := all.open(t, storage.Options{Lifelines: lines})
				got := make(chan error, 1)
				go func() {
					_, err := l.Acquire(t.Context(), tenure.Claim{Name: "x"})
					got <- err
				}()
				time.Sleep(soon)
				return faults[0], got
			}
			first, _ := waits(k)
			_, second := waits(newHearing(k))
			first.Hang()
			if ends {
				k.kill()
			}
			time.Sleep(soon)
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err := <-second
			if took := time.Since(began); err != nil || (took <= soon) != ends {
				t.Errorf("the first that waits has ended: %v; the second has the lease after %v, %v; want within %v: %v", ends, took, err, soon, ends)
			}
		})
	}
}
