package diskleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

const longTerm = 96 * delta // bears a δ of eight

// T-1: all claims that race on one record wait for the δ in the record, whatever they have
// measured themselves.
func delayOfTheRecord(th *theater) {
	p, q := th.contend(), th.contend()
	q.host.Step(disklease.Measured{Delay: delta * 5 / 4})
	p.perform("Read")
	q.perform("Read")
	p.perform("Write")
	p.settle()
	p.perform("Read")
	th.want("nobody else has written", p, true)
	th.pass(delta / 4)
	effect, answer := q.stuck("Write")
	effect()
	answer()
	th.pass(3 * delta)
	if len(q.pending) > 0 {
		q.perform("Read")
	}
	th.want("its write took more than 2δ of the record", q, false)
}

// A δ that is too small is raised by a write that claims nothing.
func raisedDelay(th *theater) {
	p := th.contend()
	slow := func(kind string, d time.Duration) {
		effect, answer := p.stuck(kind)
		effect()
		th.pass(d)
		answer()
	}
	slow("Read", delta*5/4)
	slow("Write", delta*5/4)
	th.want("read and write took more than 2δ", p, false)
	p.idle(wait + 10*delta)
	slow("Write", delta/2)
	for range 100 {
		if len(p.pending) > 0 {
			break
		}
		th.pass(delta / 10)
	}
	slow("Read", delta/2)
	th.want("in time at last", p, true)
	p.leave()
	p.perform("Note")
	p = th.contend()
	p.perform("Read")
	slow("Write", delta*5/2)
	th.pass(3 * delta)
	p.perform("Read")
	th.want("the record allows for more", p, true)
}

// raised leaves a released record behind that has raised δ to eight.
func (th *theater) raised() *actor {
	x := th.enter(disklease.Config{Term: longTerm}, disklease.Measured{Delay: 8 * delta})
	x.host.Step(disklease.Acquire{})
	th.pass(0)
	x.slowly(2 * delta)
	x.leave()
	x.perform("Note")
	return x
}

// P claims on a record with a great δ, and writes one with a small δ. Others wait by
// that one, so P must believe no longer than it allows.
func leastDelay(th *theater) {
	th.raised()
	p, q := th.enter(disklease.Config{Term: longTerm}, disklease.Acquire{}), th.enter(disklease.Config{Term: longTerm}, disklease.Acquire{})
	p.perform("Read")
	p.perform("Write")
	q.perform("Read")
	q.perform("Note")
	th.pass(16*delta + time.Microsecond)
	p.perform("Read")
	th.want("nobody else has written", p, true)
	p.host.Pause()
	q.idle(longTerm + 7*delta)
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("P's stamp has not changed for Δ+6δ", q, true)
}

// T-1 again: P has read a record with a great δ. If a store forgot that, Q would race
// with P by the header's.
func raisedNotForgotten(th *theater) {
	x := th.raised()
	if disklease.Obsolete(th.reg.show(th.reg.value), x.id) {
		th.t.Error("a record that has raised δ may be forgotten")
	}
	y := th.enter(disklease.Config{Term: longTerm}, disklease.Acquire{})
	y.slowly(16 * delta)
	y.leave()
	y.perform("Note")
	if !disklease.Obsolete(th.reg.show(th.reg.value), y.id) {
		th.t.Error("a released record with the header's δ may not be forgotten")
	}
	z := th.enter(disklease.Config{Term: longTerm}, disklease.Acquire{})
	z.win()
	if shows := th.reg.show(th.reg.value); disklease.Obsolete(shows, z.id) || !disklease.Obsolete(shows, y.id) {
		th.t.Error("the record of a holder may be forgotten, or that of its predecessor may not")
	}
}

// A claim whose look took too long does not write: it could not count.
func futileWrite(th *theater) {
	p := th.contend()
	effect, answer := p.stuck("Read")
	effect()
	th.pass(5 * delta)
	answer()
	if p.writes() {
		th.t.Error("writes though 2δ have passed since it began to look")
	}
	p.idle(3 * delta)
	p.perform("Write")
}

// Reads take longer than the header's 2δ, always. A process must write to raise δ, though it
// claims nothing.
func slowLooks(th *theater) {
	p := th.enter(disklease.Config{Term: longTerm}, disklease.Acquire{})
	for range 500 {
		switch {
		case p.holds():
			return
		case p.writes():
			p.perform("Write")
		case p.notes():
			p.perform("Note")
		case len(p.pending) > 0:
			effect, answer := p.stuck("Read")
			effect()
			th.pass(3 * delta)
			answer()
		default:
			th.pass(delta)
		}
	}
	th.t.Errorf("nobody ever holds, since reads take 3δ: %v", p.outcomes)
}
