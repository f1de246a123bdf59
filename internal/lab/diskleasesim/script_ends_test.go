package diskleasesim

import "github.com/tenure-lease/tenure/internal/protocol/disklease"

// end ends the actor's process, and tells another actor of it.
func (a *actor) end(to *actor) {
	a.j.onEnd(a.process)
	e := disklease.Ended{ID: a.id, Stamp: a.lease.Held()}
	a.host.Crash()
	to.host.Step(e)
	a.th.pass(0)
}

// P's process ends while Q waits for it: Q holds at once, and never together with P.
func endOfAHolder(th *theater) {
	p, q := th.contend(), th.contend()
	p.win()
	q.perform("Read")
	q.perform("Note")
	p.end(q)
	q.perform("Read")
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("P has ended", q, true)
}

// P's write came in late over Q's, and P's process ends. No process may take that for the end of the
// holder: Q holds.
func unconfirmedEnd(th *theater) {
	q, p := th.contend(), th.contend()
	p.perform("Read")
	effect, _ := p.stuck("Write")
	q.win()
	effect()
	r := th.contend()
	p.end(r)
	r.perform("Read")
	if r.writes() {
		th.t.Error("R writes while Q holds")
		r.perform("Write")
		r.settle()
		r.perform("Read")
	}
}

// P's renewal gets stuck until Q holds, and comes in over Q's record; then P's process ends. The stamp of
// the renewal is not the one by which P held, and hides Q.
func endDuringARenewal(th *theater) {
	q, p := th.enter(disklease.Config{}, disklease.Acquire{}), th.contend()
	p.win()
	q.perform("Read")
	q.perform("Note")
	th.pass(term / 3)
	p.perform("Read")
	effect, _ := p.stuck("Write")
	q.idle(wait + delta)
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("P's lease has run out", q, true)
	effect()
	r := th.contend()
	p.end(r)
	r.idle(wait - delta) // by then it does not take Q for one that waits any more
	if r.writes() {
		th.t.Error("R writes over a renewal that was not confirmed, and hides Q")
	}
}
