package world

import (
	"fmt"
	"time"
)

// Seam is where a process meets the world.
type Seam string

// The seams there are. A world may have others.
const (
	Disk    Seam = "disk"    // calls of a file system
	Network Seam = "network" // dial, accept, read, write
	Clock   Seam = "clock"   // readings
	self    Seam = "process" // faults of the process as a whole
)

// Kind is what goes wrong.
type Kind string

// Kinds that a Process carries out itself, at the seam that it is asked at.
const (
	Delay   Kind = "delay"    // the operation takes For longer; with Lasting, all do meanwhile
	Hang    Kind = "hang"     // operations do not return until For is over
	Fail    Kind = "fail"     // operations fail with EIO
	NoSpace Kind = "no space" // operations that need space fail with ENOSPC
	Freeze  Kind = "freeze"   // the process stands still for For, as after SIGSTOP
)

// Kinds that the world's Happen carries out.
const (
	Kill      Kind = "kill"       // the process ends; its writes stay
	Crash     Kind = "crash"      // the machine loses its power: writes that were not synced may be lost
	Older     Kind = "older"      // a crash, and the directory comes back as it was earlier
	Empty     Kind = "empty"      // a crash, and the directory comes back empty
	Restart   Kind = "restart"    // a kill and a start with other flags: With
	Cut       Kind = "cut"        // nothing gets from Who to With
	Isolate   Kind = "isolate"    // nothing gets to Who or from it
	Reset     Kind = "reset"      // connections between Who and With are reset
	HalfOpen  Kind = "half-open"  // Who's connections are gone, and the other ends do not hear of it
	Stranger  Kind = "stranger"   // a stranger that is no member speaks to Who
	ClockJump Kind = "clock jump" // Who's clock is set, by With
	ClockHalt Kind = "clock halt" // Who's clock stands still for For
	ClockRate Kind = "clock rate" // Who's clock runs at the rate of With for For
	Member    Kind = "member"     // a change of the members: With
)

// Fault is something that goes wrong, and where or when.
type Fault struct {
	Who  string
	Seam Seam
	// Op is the operation, Nth its number among those of Who at Seam, counted from 1. An empty
	// Op counts all at the seam. With Nth 0 the fault happens At after the world began.
	Op  string
	Nth int
	At  time.Duration

	Kind Kind
	// For is how long it lasts. A Fail or NoSpace of 0 is of one operation.
	For time.Duration
	// Lasting makes a Delay one of every operation of the next while; each takes For.
	Lasting time.Duration
	// With is the other end, or what else the Kind needs.
	With string
}

func (f Fault) String() string {
	when := fmt.Sprintf("at %v", f.At)
	if f.Nth > 0 {
		op := f.Op
		if op == "" {
			op = "any"
		}
		when = fmt.Sprintf("at %s %s #%d", f.Seam, op, f.Nth)
	}
	s := fmt.Sprintf("%s: %s %s", when, f.Who, f.Kind)
	if f.With != "" {
		s += " " + f.With
	}
	if f.For != 0 {
		s += fmt.Sprintf(" for %v", f.For)
	}
	if f.Lasting != 0 {
		s += fmt.Sprintf(" during %v", f.Lasting)
	}
	return s
}

// ends is how long a fault that a Process carries out lasts.
func (f Fault) ends() time.Duration {
	if f.Kind == Delay {
		return f.Lasting
	}
	return f.For
}

// fits reports whether the fault is about an operation.
func (f Fault) fits(seam Seam, op string) bool {
	return f.Seam == seam && (f.Op == "" || f.Op == op)
}

// inner reports whether a Process carries the fault out.
func (f Fault) inner() bool {
	switch f.Kind {
	case Delay, Hang, Fail, NoSpace, Freeze:
		return true
	}
	return false
}
