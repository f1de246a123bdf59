package node

import (
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// clocks reads this member's clock for the replica and judges it by the machine's other
// clocks. The stepping goroutine owns it; anybody may read what it reports.
type clocks struct {
	n     *Node
	now   func() machine.Now
	look  func() clock.Evidence // nil: there is no evidence
	judge clock.Judge
	turn  machine.Mono    // the last reading
	next  machine.Mono    // when to look again
	ahead time.Duration   // by how much the time of day was ahead of the clock of leases, at the last look
	doubt replica.Doubted // the doubt of which the replica has yet to hear; zero: none

	report atomic.Pointer[ClockReport]
}

// ClockReport is what a member has found odd about its machine's clocks since it started.
type ClockReport struct {
	Pauses, Suspends uint64 // of the process, and the machine; nothing is unsafe about these
	Doubts           uint64 // looks that put the clock of leases in doubt
	Last             string // the last of all these, in words
	At               time.Time
	until            machine.Mono // the end of the doubt about the clock
}

const (
	// lookEvery is how often the clocks are compared.
	lookEvery = 50 * time.Millisecond // a tick is twice that, and looks are made in turns
	// hesitation is how long a clock is in doubt after it was odd.
	hesitation = time.Second
	// glance is by how much the two clocks that each turn reads may come apart before all
	// are compared. The readings also come apart if the thread waits between them.
	glance = 2 * time.Millisecond
)

// read is the driver's clock. An oddity takes effect before the turn that read it.
func (c *clocks) read() machine.Now {
	now := c.now()
	c.turn = now.Mono
	if c.look == nil {
		return now
	}
	ahead := time.Duration(now.Wall) - time.Duration(now.Mono)
	if apart := ahead - c.ahead; now.Mono < c.next && apart < glance && apart > -glance {
		return now
	}
	e := c.look()
	c.next, c.ahead = e.Now.Add(lookEvery), time.Duration(e.Wall)-time.Duration(e.Now)
	since := c.judge.Since()
	for _, odd := range c.judge.Look(e) {
		c.note(odd, since, e.Now)
	}
	return now
}

func (c *clocks) note(odd clock.Oddity, since, now machine.Mono) {
	report := c.told()
	doubted := now < report.until
	report.Last, report.At = odd.String(), time.Now()
	switch odd.Kind {
	case clock.Paused:
		report.Pauses++
	case clock.Slept:
		report.Suspends++
	}
	if odd.Kind.Doubtful() {
		report.Doubts++
		if c.doubt.Until == 0 {
			c.doubt.Since = since
		}
		c.doubt.Until = now.Add(hesitation)
		report.until = c.doubt.Until
		c.n.reads.withdraw() // until the replica has heard of it
	}
	c.report.Store(&report)
	switch {
	case !odd.Kind.Doubtful():
		c.n.logger.Warn("the clock", "odd", odd.String())
	case !doubted: // else it goes on
		c.n.logger.Error("the clock cannot be trusted: this member gives up its read lease, reads by way of the leader, and keeps its promises to others for longer", "odd", odd.String())
	}
}

func (c *clocks) told() ClockReport {
	if r := c.report.Load(); r != nil {
		return *r
	}
	return ClockReport{}
}

// watched is the replica behind a guard: a doubt about the clock reaches it before the next input.
type watched struct {
	*replica.Replica
	clocks *clocks
}

func (w watched) Step(now machine.Now, input replica.Input) {
	w.warn(now)
	w.Replica.Step(now, input)
}

func (w watched) Receive(now machine.Now, e machine.Envelope) {
	w.warn(now)
	w.Replica.Receive(now, e)
}

func (w watched) Wake(now machine.Now) {
	w.warn(now)
	w.Replica.Wake(now)
}

func (w watched) Ready() machine.Ready[replica.Outcome] {
	w.warn(machine.Now{Mono: w.clocks.turn})
	return w.Replica.Ready()
}

func (w watched) warn(now machine.Now) {
	if doubted := w.clocks.doubt; doubted.Until != 0 {
		w.clocks.doubt = replica.Doubted{}
		w.Replica.Step(now, doubted)
	}
}

// Clock reports what was odd about this machine's clocks, and whether they are in doubt
// now: then this member has no read lease.
func (n *Node) Clock() (r ClockReport, doubted bool) {
	r = n.clocks.told()
	return r, n.reads.clock() < r.until
}
