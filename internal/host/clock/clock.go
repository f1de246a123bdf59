package clock

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Clock is System or, in tests, a Fake.
type Clock interface {
	// Now never goes back and counts suspend.
	Now() machine.Mono
	// Alarm rings at the given reading or as soon afterwards as possible.
	Alarm(at machine.Mono) *Alarm
}

// Alarm rings once.
type Alarm struct {
	// C is closed when the alarm rings.
	C    <-chan struct{}
	ring chan struct{}
	at   machine.Mono
	set  *alarms
}

// Stop makes sure that the alarm will not ring, unless it has. It need not be
// called after the alarm rang.
func (a *Alarm) Stop() { a.set.stop(a) }

// System is the clock of this machine.
var System Clock = system{}

// Now reads System.
func Now() machine.Mono { return now() }

type system struct{}

func (system) Now() machine.Mono            { return now() }
func (system) Alarm(at machine.Mono) *Alarm { return pending.add(at) }

// pending are the alarms of System.
var pending = &alarms{}

// After returns the reading d from now on c.
func After(c Clock, d time.Duration) machine.Mono { return c.Now().Add(d) }
