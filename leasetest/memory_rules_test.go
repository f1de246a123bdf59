package leasetest

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

const memoryTTL = 20 * time.Second

// inMemory runs a test with a Memory and a Leaser of it, in a bubble.
func inMemory(t *testing.T, f func(t *testing.T, m *Memory, l *memoryLeaser)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		m := NewMemory()
		l := m.Open().(*memoryLeaser)
		f(t, m, l)
		l.line.lag(0)
		l.line.heal()
		l.Close()
		time.Sleep(time.Hour) // what was closed ends its timers
	})
}

func (l *memoryLeaser) mustAcquire(t *testing.T, c tenure.Claim) *memoryLease {
	t.Helper()
	lease, err := l.TryAcquire(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return lease.(*memoryLease)
}

// A deadline counts from when the lease was asked for, and a renewal counts only if its answer comes
// before the deadline and is that the store knows the lease.
func TestDeadlinesInMemory(t *testing.T) {
	claim := tenure.Claim{Name: "n", TTL: memoryTTL}
	inMemory(t, func(t *testing.T, _ *Memory, l *memoryLeaser) {
		l.line.lag(time.Second)
		asked := time.Now()
		if x, want := l.mustAcquire(t, claim), asked.Add(memoryTTL*19/20); !x.Deadline().Equal(want) {
			t.Errorf("asked for at %v, a lease has the deadline %v, want %v", asked, x.Deadline(), want)
		}
	})
	inMemory(t, func(t *testing.T, _ *Memory, l *memoryLeaser) {
		x := l.mustAcquire(t, claim)
		if x.answered(time.Now(), false); !errors.Is(x.Err(), tenure.ErrLost) {
			t.Errorf("the store knows the lease no more, and it is %v, want %v", x.Err(), tenure.ErrLost)
		}
	})
	inMemory(t, func(t *testing.T, _ *Memory, l *memoryLeaser) {
		x := l.mustAcquire(t, claim)
		sent := l.now()
		l.slept.Add(int64(2 * memoryTTL)) // and no alarm has rung yet
		if x.answered(sent, true); !errors.Is(x.Err(), tenure.ErrLost) {
			t.Errorf("renewed two TTLs late, the lease is %v, want %v", x.Err(), tenure.ErrLost)
		}
	})
	inMemory(t, func(t *testing.T, m *Memory, _ *memoryLeaser) {
		e := m.enqueue(claim)
		time.Sleep(memoryTTL)
		if m.renew(e) {
			t.Error("what has run out is renewed, as nobody has looked since")
		}
	})
	inMemory(t, func(t *testing.T, _ *Memory, l *memoryLeaser) {
		x := l.mustAcquire(t, claim)
		synctest.Wait()
		l.suspend(2 * memoryTTL)
		synctest.Wait()
		if !closed(x.Done()) {
			t.Error("a suspend of two TTLs is over, and Done is open until somebody asks")
		}
	})
}

// A holder that releases without the store is told why, in half a second, and keeps nothing.
func TestReleasesInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *Memory, l *memoryLeaser) {
		x := l.mustAcquire(t, tenure.Claim{Name: "n", TTL: memoryTTL})
		l.line.cut()
		began := time.Now()
		err := x.Release(t.Context())
		if took := time.Since(began); took != 500*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Release returns %v after %v, want %v after 500ms", err, took, context.DeadlineExceeded)
		}
		if len(l.leases) > 0 {
			t.Errorf("%d leases are remembered that were released", len(l.leases))
		}
	})
}

// A claim that gives up is told why and leaves nothing behind, however late the store hears of it.
func TestGivingUpInMemory(t *testing.T) {
	claim := tenure.Claim{Name: "n", TTL: memoryTTL}
	why := errors.New("no more patience")
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		for range 50 {
			if _, err := l.Acquire(ctx, claim); !errors.Is(err, why) {
				t.Fatalf("Acquire returns %v, want %v", err, why)
			}
			synctest.Wait()
			if n := len(m.queues); n > 0 {
				t.Fatalf("%d queues are left by claims that had given up before", n)
			}
		}
	})
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		l.line.lag(time.Second)
		var err error
		go func() { _, err = l.TryAcquire(t.Context(), claim) }()
		time.Sleep(time.Second / 2) // it is in the queue, and does not know
		l.Close()
		if n := len(m.queues); n > 0 {
			t.Errorf("%d queues are left by a call that was under way when its Leaser closed", n)
		}
		if synctest.Wait(); !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("a call that was under way when its Leaser closed returns %v, want %v", err, tenure.ErrClosed)
		}
	})
}

// A waiting claim is let in as soon as the lease of a silent holder has run out.
func TestWaitingInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		silent := m.Open().(*memoryLeaser)
		asked := time.Now()
		silent.mustAcquire(t, tenure.Claim{Name: "n", TTL: memoryTTL})
		silent.line.cut()
		if _, err := l.Acquire(t.Context(), tenure.Claim{Name: "n", TTL: 100 * memoryTTL}); err != nil {
			t.Error(err)
		}
		if took := time.Since(asked); took != memoryTTL {
			t.Errorf("let in after %v, want %v", took, memoryTTL)
		}
		silent.Close()
	})
}

// An observer is shown tenures without their lock delays, of how many each is, and is told of changes
// and of when to look again.
func TestLooksInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory, _ *memoryLeaser) {
		now := time.Now()
		first := m.enqueue(tenure.Claim{Name: "n", Slots: 3, TTL: memoryTTL, LockDelay: time.Minute})
		second := m.enqueue(tenure.Claim{Name: "n", Slots: 3, TTL: 2 * memoryTTL})
		s, _, _, _, soonest := m.look("n", nil)
		want := []tenure.Holding{
			{Token: first.token, Slots: 3, Until: now.Add(memoryTTL)}, {Token: second.token, Slots: 3, Until: now.Add(2 * memoryTTL)},
		}
		if !reflect.DeepEqual(s.Holders, want) {
			t.Errorf("the holders are %+v, want %+v", s.Holders, want)
		}
		m.enqueue(tenure.Claim{Name: "n", Slots: 1, TTL: memoryTTL})
		if behind, _, _, _, _ := m.look("n", nil); s.Waiting != 0 || behind.Waiting != 1 {
			t.Errorf("%d wait, and with one behind them %d, want none and one", s.Waiting, behind.Waiting)
		}
		if want := now.Add(memoryTTL + time.Minute); !m.renew(first) || !first.until.Equal(want) {
			t.Errorf("renewed, a claim is in the way until %v, want %v, behind its lock delay", first.until, want)
		}
		if at := now.Add(2 * memoryTTL); !soonest.Equal(at) {
			t.Errorf("the next look is at %v, want %v, as the second one ends", soonest, at)
		}
		for what, change := range map[string]func(){"a crash": m.crash, "a release": func() { m.remove(first) }} {
			_, _, _, changed, _ := m.look("n", nil)
			if closed(changed) {
				t.Errorf("before %s something has changed", what)
			}
			if change(); !closed(changed) {
				t.Errorf("a waiter is not woken by %s", what)
			}
		}
	})
}

// A Memory makes all the trouble that the suite asks for.
func TestMemoryMakesAllTrouble(t *testing.T) {
	f := reflect.ValueOf(NewMemory().Fixture(memoryTTL))
	for i := range f.NumField() {
		if f.Field(i).IsZero() {
			t.Errorf("the fixture has no %s", f.Type().Field(i).Name)
		}
	}
}

// A call over a line is late by the line's lag, and waits while the line is cut. A caller that gives up is told why.
func TestLine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var n line
		call := func(ctx context.Context) (did *atomic.Bool, took time.Duration, err error) {
			did = new(atomic.Bool)
			began := time.Now()
			err = n.call(ctx, func() { did.Store(true) })
			return did, time.Since(began), err
		}
		n.lag(time.Second)
		if did, took, err := call(t.Context()); err != nil || !did.Load() || took != time.Second {
			t.Errorf("with a lag of a second: %v after %v, done: %v", err, took, did.Load())
		}
		n.lag(0)
		n.cut()
		n.cut()
		why := errors.New("no more patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		did, took, err := call(ctx)
		synctest.Wait()
		if err != why || did.Load() || took != time.Second {
			t.Errorf("cut off: %v after %v, done: %v; want %v after 1s, and not done", err, took, did.Load(), why)
		}
		time.AfterFunc(time.Second/2, n.cut)
		time.AfterFunc(time.Second, n.heal)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if did, took, err := call(ctx); err != nil || !did.Load() || took != time.Second {
			t.Errorf("cut twice and healed a second later: %v after %v, done: %v", err, took, did.Load())
		}
		n.lag(time.Second)
		n.cut()
		time.AfterFunc(3*time.Second, n.heal)
		if did, took, err := call(ctx); err != nil || !did.Load() || took != 4*time.Second {
			t.Errorf("late by a second, and healed after three: %v after %v, done: %v", err, took, did.Load())
		}
	})
}

// A look that hears nothing from the store does not show that nobody holds.
func TestLooksWithoutAnAnswerInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *Memory, l *memoryLeaser) {
		l.mustAcquire(t, tenure.Claim{Name: "n", TTL: memoryTTL})
		l.line.cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s, err := l.Observe(ctx, "n"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a look that nobody answers shows %+v, %v; want %v", s, err, context.DeadlineExceeded)
		}
	})
}

// A caller that gives up is told why its claim was not admitted: somebody holds the name, or the store is silent, or neither.
func TestObstaclesInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		if err := l.obstacle("n"); err == nil || errors.Is(err, tenure.ErrUnavailable) || errors.As(err, new(tenure.HeldError)) {
			t.Errorf("a free name: the obstacle is %v, want that it is free by now", err)
		}
		l.mustAcquire(t, tenure.Claim{Name: "n", Holder: "h", TTL: memoryTTL})
		var held tenure.HeldError
		if err := l.obstacle("n"); !errors.As(err, &held) || held != (tenure.HeldError{Name: "n", Holder: "h", Until: time.Now().Add(memoryTTL)}) {
			t.Errorf("a name that is held: the obstacle is %v, want the holder", err)
		}
		l.line.cut()
		began := time.Now()
		if err := l.obstacle("n"); !errors.Is(err, tenure.ErrUnavailable) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("a silent store: the obstacle is %v after %v, want %v after 100ms", err, time.Since(began), tenure.ErrUnavailable)
		}
	})
}

// A claim that is let in so late that its own deadline has passed is no lease: the caller waits on.
func TestAdmittedTooLateInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		l.line.lag(memoryTTL/2 - time.Nanosecond) // two answers take longer than a lease counts, and the store keeps it just so long
		ctx, cancel := context.WithTimeout(t.Context(), 10*memoryTTL)
		defer cancel()
		if lease, err := l.Acquire(ctx, tenure.Claim{Name: "n", TTL: memoryTTL}); err == nil {
			t.Errorf("a lease is handed out whose deadline has passed: %v", lease.Check())
		}
	})
}

// A lease is renewed a third of its TTL from when the renewal before was sent, however late that was answered.
func TestRenewalsInMemoryKeepTime(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		l.line.lag(memoryTTL / 4)
		asked := time.Now()
		x := l.mustAcquire(t, tenure.Claim{Name: "n", TTL: memoryTTL})
		for i := range 4 {
			sent := asked.Add(time.Duration(i+1) * (memoryTTL / 3))
			time.Sleep(time.Until(sent.Add(time.Second)))
			m.mu.Lock()
			until := x.entry.until
			m.mu.Unlock()
			if want := sent.Add(memoryTTL); !until.Equal(want) {
				t.Errorf("renewal %d: the store keeps the lease until %v after it was asked for, want %v", i+1, until.Sub(asked), want.Sub(asked))
			}
		}
	})
}

// A call that has ended holds nothing of its caller's context.
func TestCallsInMemoryEndTheirContexts(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *Memory, l *memoryLeaser) {
		ctx, end, err := l.begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			t.Errorf("the context of a call that is under way has ended: %v", ctx.Err())
		}
		if end(); ctx.Err() == nil {
			t.Error("a call has ended, and its context goes on: the caller's refers to it for ever")
		}
	})
}

// A refusal names the holder that came first, and its end.
func TestRefusalsInMemoryNameTheFirst(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		l.mustAcquire(t, tenure.Claim{Name: "n", Holder: "first", TTL: memoryTTL, Slots: 2})
		l.mustAcquire(t, tenure.Claim{Name: "n", Holder: "second", TTL: 2 * memoryTTL, Slots: 2})
		want := tenure.HeldError{Name: "n", Holder: "first", Until: time.Now().Add(memoryTTL)}
		_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n", TTL: memoryTTL})
		var held tenure.HeldError
		if !errors.As(err, &held) || held != want {
			t.Errorf("two hold, and a third is refused by %+v, want %+v", err, want)
		}
	})
}

// A try that its caller gives up before the answer is here has no lease, though the store admits it.
func TestATryThatIsGivenUpInMemory(t *testing.T) {
	inMemory(t, func(t *testing.T, m *Memory, l *memoryLeaser) {
		l.line.lag(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second/2) // behind the first answer, and before the second
		defer cancel()
		if lease, err := l.TryAcquire(ctx, tenure.Claim{Name: "n", TTL: memoryTTL}); lease != nil || !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("given up before the answer: %v, %v; want no lease and %v", lease, err, tenure.ErrUnavailable)
		}
		l.line.lag(0)
		synctest.Wait()
		if n := len(m.queues); n > 0 {
			t.Errorf("%d queues are left by a try that was given up", n)
		}
	})
}

// A fixture's crash is one of its Memory: claims that wait look again.
func TestAFixturesCrashReachesItsMemory(t *testing.T) {
	m := NewMemory()
	_, _, _, changed, _ := m.look("n", nil)
	if err := m.Fixture(memoryTTL).Crash(); err != nil {
		t.Fatal(err)
	}
	if !closed(changed) {
		t.Error("the store has crashed, and claims that wait are not woken")
	}
}
