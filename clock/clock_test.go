package clock

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
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
}
