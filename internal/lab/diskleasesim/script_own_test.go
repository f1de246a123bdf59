package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// written has the process write its entry in time, and its read-back fail.
func (a *actor) written() {
	a.th.t.Helper()
	a.perform("Read")
	a.perform("Write")
	a.settle()
	a.fail("Read")
}

// proceeds lets the process look, and claim if it wants to.
func (a *actor) proceeds() {
	a.th.t.Helper()
	if a.idle(wait / 4); a.writes() {
		a.perform("Write")
		a.settle()
		a.perform("Read")
	}
}

// P's write was late and covers the record of Q, which holds. Only the wait tells P that Q's
// lease has ended: P's own entry is all that the register shows.
func lateEntry(th *theater) {
	q, p := th.contend(), th.contend()
	p.perform("Read")
	effect, answer := p.stuck("Write")
	q.win()
	effect()
	answer()
	p.proceeds()
	th.want("its late entry hides Q", p, false)
}

// P's write was in time, and only its read-back failed. Nobody holds beside P's entry, so P
// need not wait for it.
func entryInTime(th *theater) {
	p := th.contend()
	p.written()
	p.proceeds()
	th.want("its entry was in time", p, true)
}

// P reads its entry back when it cannot hold by it any more.
func entryReadLate(th *theater) {
	for _, first := range []disklease.LeaseInput{disklease.Acquire{}, disklease.TryAcquire{}} {
		p := th.enter(disklease.Config{}, first)
		p.perform("Read")
		p.perform("Write")
		p.settle()
		effect, answer := p.stuck("Read")
		effect()
		th.pass(term + 2*delta)
		answer()
		p.proceeds()
		th.want("its entry was in time", p, true)
		p.leave()
		p.perform("Note")
	}
}

// P's try wrote in time and is refused since its read-back fails. The next claim need not wait
// for what P has left.
func releasedEntryInTime(th *theater) {
	p := th.enter(disklease.Config{}, disklease.TryAcquire{})
	p.written()
	if !slices.Equal(p.outcomes, []string{"Trouble", "Refused"}) {
		th.t.Errorf("outcomes %v, want it refused", p.outcomes)
	}
	p.leave()
	if !p.notes() {
		th.t.Fatal("P leaves an entry for which all have to wait")
	}
	p.perform("Note")
	q := th.contend()
	q.win()
	q.leave()
	q.perform("Note")

	r, s := th.enter(disklease.Config{}, disklease.TryAcquire{}), th.enter(disklease.Config{}, disklease.TryAcquire{})
	r.perform("Read")
	s.perform("Read")
	r.perform("Write")
	s.perform("Write")
	r.settle()
	r.perform("Read")
	if r.leave(); r.notes() {
		th.t.Error("R releases an entry that another has overwritten")
	}
}

// P and Q race, P leaves at once, and has raised δ. If R heard of that before P's entry has
// settled, it would race with Q by a δ that Q does not know.
func settledRelease(th *theater) {
	long := disklease.Config{Term: 80 * delta}
	p := th.enter(long, disklease.Measured{Delay: 5 * delta})
	p.host.Step(disklease.Acquire{})
	th.pass(0)
	q := th.enter(long, disklease.Acquire{})
	q.perform("Read")
	p.perform("Read")
	p.perform("Write")
	p.leave()
	if p.notes() {
		p.perform("Note")
	}
	r := th.enter(long, disklease.Acquire{})
	r.perform("Read")
	write, answer := func() {}, func() {}
	if r.writes() {
		write, answer = r.stuck("Write")
	}
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("it wrote last", q, true)
	write()
	answer()
	th.pass(10*delta + time.Microsecond)
	if len(r.pending) > 0 {
		r.perform(map[bool]string{true: "Note", false: "Read"}[r.notes()])
	}
	th.want("Q holds", r, false)
}

// P's first entry was in time, its next write gets stuck. Q waits until the first is dead, holds,
// and then the second covers Q's record.
func lateAfterInTime(th *theater) {
	q, p := th.contend(), th.contend()
	p.written()
	p.idle(wait / 4)
	effect, answer := p.stuck("Write")
	q.idle(wait + delta)
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("P's first entry is dead", q, true)
	effect()
	answer()
	p.idle(wait - delta) // by then it does not take Q for one that waits any more
	if p.writes() {
		th.t.Error("P writes over its second entry, which hides Q")
	}
}

// Q's entry has the stamp of P's, and covers it.
func stampOfAnother(th *theater) {
	p, q := th.contend(), th.contend()
	q.perform("Read")
	p.perform("Read")
	p.perform("Write")
	q.perform("Write")
	p.settle()
	p.fail("Read")
	q.perform("Read")
	th.want("it wrote last", q, true)
	p.proceeds()
	th.want("Q holds", p, false)
}
