package clock

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Judge compares what the clocks of a machine show from one look to the next. The zero
// Judge has seen nothing.
type Judge struct {
	base, last Evidence
	begun      bool
}

// Oddity is something that clocks should not do, or that a process should know of.
type Oddity struct {
	Kind Kind
	// By is how long the process or the machine stood still, how far the time of day went
	// ahead of the clock of leases, or how far that went ahead of the raw one.
	By time.Duration
	// Over is in which time that happened.
	Over time.Duration
}

// Kind is what is odd.
type Kind int

const (
	// Paused: nobody looked for long, though somebody should have. The clock of leases went
	// on meanwhile, so leases that are over are over.
	Paused Kind = iota
	// Slept: the machine was suspended, and its clock of leases counted that.
	Slept
	// Set: the time of day and the clock of leases moved apart. Either the former was set,
	// or the latter stood still or jumped, as it may when a virtual machine is frozen,
	// copied or moved, and is told the time afterwards.
	Set
	// Fast: the clock of leases runs at a rate that is too near to what leases allow for, or
	// beyond, ahead of time or, if By is negative, behind it. The raw clock is taken to be
	// right: one that is off as much, and corrected, looks the same. NTP daemons correct
	// large errors so: chrony by up to 8 %, if it is let.
	Fast
	// Back: it went back.
	Back
)

// Doubtful reports whether the clock of leases may not have gone as time does.
func (k Kind) Doubtful() bool { return k >= Set }

func (o Oddity) String() string {
	switch o.Kind {
	case Paused:
		return fmt.Sprintf("this process stood still for %v", o.By)
	case Slept:
		return fmt.Sprintf("this machine was suspended for %v", o.By)
	case Set:
		return fmt.Sprintf("the time of day went %v while the clock of leases went %v: it was set, or this machine was frozen", o.Over+o.By, o.Over)
	case Fast:
		return fmt.Sprintf("the clock of leases goes at a wrong rate: %v in %v", o.Over+o.By, o.Over)
	case Back:
		return fmt.Sprintf("the clock of leases went back by %v", -o.By)
	}
	return fmt.Sprintf("clock: odd: %+v", struct {
		Kind     Kind
		By, Over time.Duration
	}(o))
}

const (
	// pause is from when on a process that should look ten times a second stood still.
	pause = time.Second
	// apart is what steps of the time of day have to exceed: daemons slew what is less,
	// and a virtual machine that was frozen for less is within what leases allow for.
	apart = 5 * time.Millisecond
	// wrongRate is one in so many. Leases allow for one in a hundred.
	wrongRate = 200
	// window is how long small errors add up.
	window = time.Second
)

// Since returns the time from which the next Look compares: an oddity that it finds has
// happened since.
func (j *Judge) Since() machine.Mono { return j.base.Now }

// Look takes what the clocks show now, and tells what is odd about it. It should be
// asked ten times a second at least.
func (j *Judge) Look(e Evidence) []Oddity {
	b, last := j.base, j.last
	j.last = e
	if !j.begun {
		j.begun, j.base = true, e
		return nil
	}
	var odd []Oddity
	blur := e.Within + b.Within // as it took so long to look
	passed := e.Now.Sub(b.Now)
	slept := passed - (e.Running - b.Running)
	switch since := e.Now.Sub(last.Now); {
	case since < 0:
		odd = append(odd, Oddity{Back, since, since})
	case slept < -apart-blur: // it missed what the other saw
		odd = append(odd, Oddity{Back, slept, passed})
	default:
		if since -= max(0, slept); since > pause {
			odd = append(odd, Oddity{Paused, since, since})
		}
		if slept > apart+blur {
			odd = append(odd, Oddity{Slept, slept, passed})
		}
		if by := time.Duration(e.Wall-b.Wall) - passed; by > apart+blur || by < -apart-blur {
			odd = append(odd, Oddity{Set, by, passed})
		}
	}
	if o, is := e.rate(last); is {
		odd = append(odd, o)
	} else if o, is := e.rate(b); is {
		odd = append(odd, o)
	}
	if len(odd) > 0 || e.Raw-b.Raw >= window {
		j.base = e
	}
	return odd
}

// rate reports whether the clock went at a wrong rate since an earlier look.
func (e Evidence) rate(b Evidence) (Oddity, bool) {
	raw := e.Raw - b.Raw
	by, allowed := e.Running-b.Running-raw, raw/wrongRate+e.Within+b.Within
	return Oddity{Fast, by, raw}, by > allowed || by < -allowed
}
