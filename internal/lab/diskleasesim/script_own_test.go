package diskleasesim

import (
	"slices"

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
	th.contend().win()
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
