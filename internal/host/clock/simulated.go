package clock

import (
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Simulated is a Clock for tests whose time passes by itself, at a rate of its own: it runs
// on Go's time and timers, and so also in a testing/synctest bubble. It may be set, frozen
// and made faster or slower while it runs. Make one with NewSimulated.
type Simulated struct {
	mu     sync.Mutex
	base   machine.Mono // the reading at the time since
	since  time.Time
	rate   float64
	frozen bool
	alarms alarms
	timer  *time.Timer // for the earliest alarm; nil before the first
}

// NewSimulated returns a clock that shows a reading now and goes as time does.
func NewSimulated(at machine.Mono) *Simulated {
	return &Simulated{base: at, since: time.Now(), rate: 1}
}

// Now returns the reading. It goes back only by a Jump.
func (s *Simulated) Now() machine.Mono {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// now is Now with the lock held.
func (s *Simulated) now() machine.Mono {
	if s.frozen {
		return s.base
	}
	return s.base.Add(time.Duration(float64(time.Since(s.since)) * s.rate))
}

// Alarm rings when this clock shows the reading, whatever its rate is until then.
func (s *Simulated) Alarm(at machine.Mono) *Alarm {
	a := newAlarm(at, &s.alarms)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarms.mu.Lock()
	s.alarms.insert(a)
	s.alarms.mu.Unlock()
	s.ring()
	return a
}

// Jump adds d to the reading, which may be negative.
func (s *Simulated) Jump(d time.Duration) { s.change(func() { s.base = s.base.Add(d) }) }

// SetRate makes the clock advance by so many seconds in a second, which must be more than 0.
func (s *Simulated) SetRate(rate float64) {
	if rate <= 0 {
		panic("clock: a rate must be more than 0; use Freeze")
	}
	s.change(func() { s.rate = rate })
}

// Freeze makes the clock stand still until Thaw.
func (s *Simulated) Freeze() { s.change(func() { s.frozen = true }) }

// Thaw lets the clock go on from where it stands.
func (s *Simulated) Thaw() { s.change(func() { s.frozen = false }) }

// change makes a change that is in force from the present reading on.
func (s *Simulated) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base, s.since = s.now(), time.Now()
	f()
	s.ring()
}

// ring rings what is due and sets the timer for the next. s.mu is held.
func (s *Simulated) ring() {
	s.alarms.mu.Lock()
	defer s.alarms.mu.Unlock()
	now := s.now()
	s.alarms.ring(now)
	n := len(s.alarms.sorted)
	if n == 0 || s.frozen {
		if s.timer != nil {
			s.timer.Stop()
		}
		return
	}
	// Rounded up: a timer that comes too early would be set again and again.
	wait := time.Duration(float64(s.alarms.sorted[n-1].at.Sub(now))/s.rate) + 1
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.wake)
	} else {
		s.timer.Reset(wait)
	}
}

func (s *Simulated) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring()
}

// Waiting is how many alarms have neither rung nor been stopped.
func (s *Simulated) Waiting() int { return s.alarms.waiting() }
