package driver

import (
	"fmt"
	"runtime"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// turns is what one turn leaves to the next. It belongs to the goroutine that makes turns;
// armed is guarded by Driver.mu.
type turns[In any] struct {
	timer *time.Timer
	armed machine.Mono // until when timer waits
	now   machine.Now
	alarm machine.Mono
	spare []input[In]
	held  []machine.Envelope // leave with what the next turn sends, which follows at once
	busy  int                // for how many turns more others are let go first
}

// busyTurns is how long a turn of several inputs is taken for load.
const busyTurns = 16

// makeTurns is the loop of package machine's comment, until there is nothing to step or
// something to write. Nothing happens if somebody else is in it.
func (d *Driver[In, Out]) makeTurns(woken bool) {
	if !d.begin() {
		return
	}
	// Goroutines that are about to call Step go first and share the turn: under load a turn
	// costs more than its inputs. Without load there are none, and yielding to them would
	// wake a thread.
	if woken && d.turns.busy > 0 {
		d.turns.busy--
		runtime.Gosched()
	}
	for {
		inputs, ok := d.take()
		if !ok || !d.turn(inputs) {
			return
		}
		if d.writes.due() {
			d.giveWay()
			return
		}
	}
}

// begin reports whether there is something to step and no goroutine steps.
func (d *Driver[In, Out]) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turning || d.stopped || !d.any() {
		return false
	}
	d.turning = true
	return true
}

// any reports whether there is something for a turn. d.mu is held.
func (d *Driver[In, Out]) any() bool { return len(d.queue) > 0 || d.rang }

// take returns what is queued and leaves spare in its place. It ends turning, and reports
// false, if there is nothing.
func (d *Driver[In, Out]) take() (inputs []input[In], ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped || !d.any() {
		d.rest()
		return nil, false
	}
	inputs, d.queue, d.rang = d.queue, d.turns.spare[:0], false
	if len(inputs) >= d.cfg.QueueLimit {
		d.room.Broadcast()
	}
	return inputs, true
}

// giveWay ends turning, and has the other goroutine go on if there is something.
func (d *Driver[In, Out]) giveWay() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rest()
	if d.any() {
		poke(d.wake)
	}
}

// letStep has the other goroutine step if there is something to step and no goroutine
// steps.
func (d *Driver[In, Out]) letStep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.turning && d.any() {
		poke(d.wake)
	}
}

// rest ends turning. d.mu is held.
func (d *Driver[In, Out]) rest() {
	d.turning = false
	t := &d.turns
	// Go's timers do not count suspend, so after one the alarm is late by what was left of
	// the wait. A second bounds that. One that rings too early costs less than to set it
	// each time.
	if until := min(t.alarm, t.now.Mono.Add(time.Second)); until < t.armed || t.armed <= t.now.Mono {
		t.armed = until
		t.timer.Reset(until.Sub(t.now.Mono))
	}
}

// turn steps inputs, and hands out what comes of them. It reports false if that is the end.
func (d *Driver[In, Out]) turn(inputs []input[In]) bool {
	t := &d.turns
	t.spare = inputs[:0] // when all are stepped
	// Read once, after the inputs were taken: none that gathers nothing arrived later than
	// now, and reading a clock that counts suspend costs a system call.
	if !d.read(&t.now) {
		return false
	}
	if len(inputs) == 0 && t.now.Mono < t.alarm {
		return true // the timer was early
	}
	if len(inputs) > 1 {
		t.busy = busyTurns
	}
	for i := range inputs {
		if !d.step(&inputs[i]) {
			return false
		}
		inputs[i] = input[In]{}
	}
	if t.alarm <= t.now.Mono {
		d.cfg.Machine.Wake(t.now)
	}
	rd := d.cfg.Machine.Ready()
	t.alarm = rd.Alarm
	// First, for what others hear may rest on what the owner has heard.
	if len(rd.Outcomes) > 0 {
		d.cfg.Outcome(rd.Outcomes)
	}
	d.writes.put(rd.Persists)
	held := len(t.held) > 0
	if held {
		rd.Sends, t.held = append(t.held, rd.Sends...), nil
	}
	switch {
	case len(rd.Sends) == 0:
	case d.cfg.Hold && !held && len(rd.Outcomes) > 0 && !d.writes.due() && d.more():
		t.held = rd.Sends
	default:
		d.cfg.Send(rd.Sends)
	}
	if len(rd.Accesses) > 0 {
		d.cfg.Access(rd.Accesses)
	}
	return true
}

// step steps one input. It reports false if that is the end.
func (d *Driver[In, Out]) step(in *input[In]) bool {
	now := &d.turns.now
	switch in.kind {
	case steps:
		d.cfg.Machine.Step(*now, in.in)
	case receives:
		d.receiver.Receive(*now, in.message)
	case accesses:
		d.storing.Accessed(*now, *in.accessed)
	case wakes:
		d.cfg.Machine.Wake(*now)
	default:
		gathered, ok := in.gather()
		if in.kind == gathers && !d.read(now) { // f may have gathered what has come since
			return false
		}
		if ok {
			d.cfg.Machine.Step(*now, gathered)
		}
	}
	return true
}

// more lets the goroutines that were told something go first, and reports whether there is
// something to step then. A goroutine that queues an input wakes nobody meanwhile.
func (d *Driver[In, Out]) more() bool {
	runtime.Gosched()
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.queue) > 0 && !d.stopped
}

// read reads the clocks. One that goes back is worse than none: a machine's beliefs and
// promises for a time may be over, and it cannot know.
func (d *Driver[In, Out]) read(now *machine.Now) bool {
	next := d.cfg.Now()
	if back := now.Mono.Sub(next.Mono); back > 0 {
		d.fail(fmt.Errorf("driver: the monotonic clock went back by %v: restart the process, and find out what sets the clocks of this machine", back))
		return false
	}
	*now = next
	return true
}
