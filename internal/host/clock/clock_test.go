package clock

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestNowAdvancesAsTimeDoes(t *testing.T) {
	began, mono := time.Now(), Now()
	<-time.After(20 * time.Millisecond)
	got, want := Now().Sub(mono), time.Since(began)
	// Two readings of two clocks cannot be taken at once; a busy machine may
	// pause in between, but never makes the time of the inner pair longer.
	if got < 20*time.Millisecond || got > want+20*time.Millisecond {
		t.Errorf("20 ms took %v on Now, %v on time.Now", got, want)
	}
}

func TestAlarmsNeverRingEarly(t *testing.T) {
	for _, w := range []struct {
		name string
		make func() waiter
	}{{"kernel", newWaiter}, {"slices", func() waiter { return newSliceWaiter() }}} {
		t.Run(w.name, func(t *testing.T) {
			set := &alarms{waiter: w.make()}
			var rings sync.WaitGroup
			for range 200 {
				at := Now().Add(time.Duration(rand.IntN(50)) * time.Millisecond)
				a := set.add(at)
				if rand.IntN(4) == 0 {
					a.Stop()
					continue
				}
				rings.Go(func() {
					<-a.C
					if now := Now(); now < at {
						t.Errorf("alarm for %v rang at %v", at, now)
					}
				})
			}
			rings.Wait()
			set.mu.Lock()
			defer set.mu.Unlock()
			if len(set.sorted) != 0 {
				t.Errorf("%d alarms are left", len(set.sorted))
			}
		})
	}
}

// begun is a waiter that says when somebody is about to wait.
type begun struct {
	waiter
	waits chan struct{} // capacity 1
}

func (b begun) wait() {
	select {
	case b.waits <- struct{}{}:
	default:
	}
	b.waiter.wait()
}

// TestNobodyWaitsForNothing: when the last alarm was stopped no goroutine waits for it any more.
func TestNobodyWaitsForNothing(t *testing.T) {
	for name, w := range map[string]waiter{"kernel": newWaiter(), "slices": newSliceWaiter()} {
		waits := make(chan struct{}, 1)
		set := &alarms{waiter: begun{w, waits}}
		a := set.add(Now().Add(time.Hour))
		<-waits
		a.Stop()
		running := func() bool {
			set.mu.Lock()
			defer set.mu.Unlock()
			return set.running
		}
		for end := time.Now().Add(30 * time.Second); running(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the only alarm was stopped, and a goroutine still waits for its time", name)
			}
		}
	}
}

// listed is a waiter that lists for what it was armed, and waits until it is let go.
type listed struct {
	mu    sync.Mutex
	armed []machine.Mono
	let   chan struct{}
}

func (l *listed) arm(at machine.Mono) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = append(l.armed, at)
}

func (l *listed) wait() { <-l.let }

// TestTheEarliestAlarmIsWaitedFor: an alarm that is earlier than all others takes effect on a
// goroutine that waits for one of these, and no other does.
func TestTheEarliestAlarmIsWaitedFor(t *testing.T) {
	far := Now().Add(time.Hour)
	l := &listed{let: make(chan struct{})}
	set := &alarms{waiter: l, running: true} // nobody else arms
	for _, at := range []machine.Mono{far + 5, far + 9, far + 2, far + 3, far + 2, far} {
		set.add(at)
	}
	// Of two for the same time one may do.
	got := slices.Compact(l.armed)
	if want := []machine.Mono{far + 5, far + 2, far}; !slices.Equal(got, want) {
		t.Errorf("armed for %v, want %v", got, want)
	}
	var at []machine.Mono
	for _, a := range set.sorted {
		at = append(at, a.at)
	}
	if want := []machine.Mono{far + 9, far + 5, far + 3, far + 2, far + 2, far}; !slices.Equal(at, want) {
		t.Errorf("they ring in the order %v from the end, want %v", at, want)
	}
}

// TestAnAlarmRingsSoonAfterSuspend: without help from the kernel the clock is looked at every
// quarter of a second, for Go's timers stand still while the machine sleeps.
func TestAnAlarmRingsSoonAfterSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var slept atomic.Int64
		w := newSliceWaiter()
		w.now = func() machine.Mono { return machine.Mono(time.Since(began)).Add(time.Duration(slept.Load())) }
		rang := make(chan time.Duration, 1)
		w.arm(machine.Mono(time.Hour))
		go func() {
			for w.at == 0 {
				w.wait() // it may return earlier, before it has taken what it is armed for
			}
			rang <- time.Since(began)
		}()
		time.Sleep(10*time.Second + 100*time.Millisecond)
		slept.Store(int64(2 * time.Hour))
		if got := <-rang; got > 10*time.Second+350*time.Millisecond {
			t.Errorf("the machine slept past an alarm 10.1 s after the start, and it rang at %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and one that is near rings at its time
		began := time.Now()
		w := newSliceWaiter()
		w.now = func() machine.Mono { return machine.Mono(time.Since(began)) }
		for w.arm(machine.Mono(30 * time.Millisecond)); w.at == 0; {
			w.wait()
		}
		if took := time.Since(began); took != 30*time.Millisecond {
			t.Errorf("an alarm for 30 ms from then rang after %v", took)
		}
	})
}

func TestStoppedAlarmDoesNotRing(t *testing.T) {
	set := &alarms{}
	at := Now().Add(10 * time.Millisecond)
	stopped, later := set.add(at), set.add(at.Add(time.Millisecond))
	stopped.Stop()
	<-later.C
	select {
	case <-stopped.C:
		t.Error("it rang")
	default:
	}
	stopped.Stop() // and once more, after its time
}

func TestGoroutineEndsWithTheLastAlarm(t *testing.T) {
	set := &alarms{}
	set.add(Now().Add(time.Hour)).Stop()
	for running := true; running; {
		set.mu.Lock()
		running = set.running
		set.mu.Unlock()
	}
	<-set.add(Now()).C // and it comes back
}

func TestFake(t *testing.T) {
	var f Fake
	first, second, past := f.Alarm(10), f.Alarm(20), f.Alarm(0)
	select {
	case <-past.C:
	default:
		t.Error("an alarm for what is over does not ring at once")
	}
	rung := func() (got []machine.Mono) {
		for _, a := range []*Alarm{first, second, past} {
			select {
			case <-a.C:
				got = append(got, a.at)
			default:
			}
		}
		return got
	}
	for _, step := range []struct {
		advance time.Duration
		want    []machine.Mono
	}{{0, []machine.Mono{0}}, {9, []machine.Mono{0}}, {1, []machine.Mono{10, 0}}, {100, []machine.Mono{10, 20, 0}}} {
		f.Advance(step.advance)
		if got := rung(); !slices.Equal(got, step.want) {
			t.Errorf("at %v rang %v, want %v", f.Now(), got, step.want)
		}
	}
	if f.Now() != 110 {
		t.Errorf("now %v, want 110", f.Now())
	}
	if at := After(&f, 5); at != 115 {
		t.Errorf("5 ns from then on it is %v, want 115", at)
	}
	a, _ := f.Alarm(120), f.Alarm(130)
	for _, step := range []struct {
		do   func()
		want int
	}{{func() {}, 2}, {a.Stop, 1}, {a.Stop, 1}, {func() { f.Advance(100) }, 0}} {
		if step.do(); f.Waiting() != step.want {
			t.Errorf("%d alarms wait, want %d", f.Waiting(), step.want)
		}
	}
}

// counting counts the waiting calls.
type counting struct {
	waits atomic.Int32
	over  chan struct{}
}

func (*counting) arm(machine.Mono) {}

func (c *counting) wait() {
	c.waits.Add(1)
	<-c.over
}

// TestOneWaitsForAll: however many alarms there are, one goroutine waits for them.
func TestOneWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{over: make(chan struct{})}
		set := &alarms{waiter: c}
		far, all := Now().Add(time.Hour), []*Alarm{}
		for range 5 {
			all = append(all, set.add(far))
			synctest.Wait()
		}
		if n := c.waits.Load(); n != 1 {
			t.Errorf("%d goroutines wait for five alarms, want one", n)
		}
		for _, a := range all {
			a.Stop()
		}
		close(c.over)
	})
}

// TestTheNewestReadingCounts: a waiter that is armed again before it waits goes by what it was told last.
func TestTheNewestReadingCounts(t *testing.T) {
	w := newSliceWaiter()
	for _, at := range []machine.Mono{100, 7, 50} {
		w.arm(at)
	}
	if got := <-w.armed; got != 50 {
		t.Errorf("armed for 100, for 7 and for 50, a waiter goes by %d", got)
	}
}
