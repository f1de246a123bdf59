package clock

import (
	"slices"
	"sync"

	"github.com/tenure-lease/tenure/internal/machine"
)

// alarms is the set of alarms that have not rung yet, with a goroutine that
// waits for the earliest while there is one.
type alarms struct {
	mu      sync.Mutex
	sorted  []*Alarm // latest first, so that the earliest is popped from the end
	waiter  waiter   // made at first use; kept
	running bool
}

// waiter waits for a reading of the clock. arm may be called while another
// goroutine is in wait, and takes effect on it.
type waiter interface {
	arm(at machine.Mono)
	// wait returns when the armed reading has come, or earlier.
	wait()
}

func newAlarm(at machine.Mono, set *alarms) *Alarm {
	ring := make(chan struct{})
	return &Alarm{C: ring, ring: ring, at: at, set: set}
}

func (s *alarms) add(at machine.Mono) *Alarm {
	a := newAlarm(at, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.insert(a)
	if s.waiter == nil {
		s.waiter = newWaiter()
	}
	if s.sorted[len(s.sorted)-1] == a {
		s.waiter.arm(at)
	}
	if !s.running {
		s.running = true
		go s.run()
	}
	return a
}

func (s *alarms) insert(a *Alarm) {
	i, _ := slices.BinarySearchFunc(s.sorted, a.at, func(b *Alarm, at machine.Mono) int {
		if b.at > at {
			return -1
		}
		return 1
	})
	s.sorted = slices.Insert(s.sorted, i, a)
}

func (s *alarms) stop(a *Alarm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.sorted, a)
	if i < 0 {
		return // it rang
	}
	s.sorted = slices.Delete(s.sorted, i, i+1)
	if len(s.sorted) == 0 && s.running {
		s.waiter.arm(0) // let the goroutine go
	}
}

func (s *alarms) run() {
	for {
		s.mu.Lock()
		s.ring(now())
		if len(s.sorted) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.waiter.arm(s.sorted[len(s.sorted)-1].at)
		s.mu.Unlock()
		s.waiter.wait()
	}
}

// ring closes the channels of all that are due.
func (s *alarms) ring(now machine.Mono) {
	for n := len(s.sorted); n > 0 && s.sorted[n-1].at <= now; n-- {
		close(s.sorted[n-1].ring)
		s.sorted[n-1] = nil
		s.sorted = s.sorted[:n-1]
	}
}

func (s *alarms) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sorted)
}
