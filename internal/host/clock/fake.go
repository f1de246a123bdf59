package clock

import (
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Fake is a Clock for tests that stands still until it is told otherwise. The
// zero value is ready to use and reads zero.
type Fake struct {
	mu     sync.Mutex
	now    machine.Mono
	alarms alarms
}

// Now returns what the fake was advanced by so far.
func (f *Fake) Now() machine.Mono {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Alarm rings during the Advance that reaches at, or at once.
func (f *Fake) Alarm(at machine.Mono) *Alarm {
	a := newAlarm(at, &f.alarms)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarms.mu.Lock()
	defer f.alarms.mu.Unlock()
	f.alarms.insert(a)
	f.alarms.ring(f.now)
	return a
}

// Advance lets d pass and rings the alarms that are due.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.alarms.mu.Lock()
	defer f.alarms.mu.Unlock()
	f.alarms.ring(f.now)
}

// Waiting is how many alarms have neither rung nor been stopped.
func (f *Fake) Waiting() int { return f.alarms.waiting() }
