package clock

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// notedWaiter notes for what it is armed, and waits until the reading has come that it was armed for last.
type notedWaiter struct {
	mu    sync.Mutex
	woken *sync.Cond
	armed []machine.Mono
}

func (w *notedWaiter) arm(at machine.Mono) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = append(w.armed, at)
	w.woken.Broadcast()
}

func (w *notedWaiter) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.armed[len(w.armed)-1] > now() {
		w.woken.Wait()
	}
}

// last is what it was armed for last, when the alarms are at rest.
func (w *notedWaiter) last(s *alarms) machine.Mono {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed[len(w.armed)-1]
}

// TestTheNextAlarmIsWaitedFor: whatever the order is in which alarms come, the earliest is waited for, and the next when it has rung.
func TestTheNextAlarmIsWaitedFor(t *testing.T) {
	begun := now()
	const hour = machine.Mono(3600e9)
	w := &notedWaiter{}
	w.woken = sync.NewCond(&w.mu)
	s := &alarms{waiter: w}
	var all []*Alarm
	for i, hours := range []machine.Mono{3, 1, 4, 2} {
		all = append(all, s.add(begun+hours*hour))
		if got, want := w.last(s), begun+slices.Min([]machine.Mono{3, 1, 4, 2}[:i+1])*hour; got != want {
			t.Errorf("with %d alarms %v is waited for, want the earliest, %v", i+1, got-begun, want-begun)
		}
	}
	due := s.add(begun)
	<-due.C
	if got := w.last(s); got != begun+hour {
		t.Errorf("the first has rung, and %v is waited for, want the next, in an hour", got-begun)
	}
	for _, a := range all {
		a.Stop()
	}
	if got := w.last(s); got != 0 {
		t.Errorf("the last was stopped, and %v is waited for", got-begun)
	}
}

// A waiter goes by readings of the clock, of which one may be over by the time that it is armed.
func TestAWaiterEndsAtItsReading(t *testing.T) {
	for name, waits := range map[string]func() waiter{"kernel": newWaiter, "slices": func() waiter { return newSliceWaiter() }} {
		for _, from := range []time.Duration{-time.Hour, 5 * time.Millisecond} {
			w, over := waits(), make(chan struct{})
			w.arm(now().Add(from))
			go func() { w.wait(); close(over) }()
			select {
			case <-over:
			case <-time.After(30 * time.Second):
				t.Fatalf("%s: 30 s later a waiter waits for a reading %v from when it was armed", name, from)
			}
		}
	}
}

// A waiter whose reading is just now ends.
func TestAWaiterEndsAtJustItsReading(t *testing.T) {
	w, over := newSliceWaiter(), make(chan struct{})
	w.now = func() machine.Mono { return 7 }
	w.arm(7)
	go func() {
		for w.at == 0 {
			w.wait()
		}
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("a waiter waits on though the clock shows its reading")
	}
}
