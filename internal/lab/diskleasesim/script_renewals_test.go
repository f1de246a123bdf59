package diskleasesim

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// The write of a renewal gets stuck beyond the deadline. Fail-aware check 3.
func lateRenewal(th *theater) {
	p, q := th.contend(), th.contend()
	p.win()
	q.perform("Read")
	q.perform("Note")
	th.pass(term / 3)
	p.perform("Read")
	effect, answer := p.stuck("Write")
	q.idle(wait + delta)
	effect()
	answer()
	p.settle()
	if len(p.pending) > 0 {
		p.perform("Read")
	}
	th.want("its renewal came late", p, false)
	if !slices.Contains(p.outcomes, "Lost") {
		th.t.Errorf("the loser was told %v", p.outcomes)
	}
}

// Another's stuck write comes in between a renewal and its read-back.
func overwrittenRenewal(th *theater) {
	p, q := th.contend(), th.contend()
	q.perform("Read")
	p.win()
	th.pass(term / 3)
	p.perform("Read")
	p.perform("Write")
	p.settle()
	x := q.takes("Write") // which has been under way all the time
	th.reg.put(machine.Value{Version: machine.Version{Seq: 9, Writer: q.id}, Data: x.Op.(machine.Write).Data})
	p.perform("Read")
	th.want("the read-back shows another", p, false)
}

// A stamp that changes restarts the wait of its watchers.
func renewedEntry(th *theater) {
	p, q := th.contend(), th.contend()
	p.win()
	for range 8 {
		q.idle(term / 3)
		p.perform("Read")
		p.perform("Write")
		p.settle()
		p.perform("Read")
		th.want("it renews", p, true)
	}
	th.want("P renews", q, false)
	if q.writes() {
		th.t.Error("Q writes while P renews")
	}
}

// The write of a renewal failed, and comes in before the one that repeats it. Under one
// version the second would be taken for the first, and the renewal be lost.
func repeatedRenewal(th *theater) {
	p := th.contend()
	p.win()
	th.pass(term / 3)
	p.perform("Read")
	effect := p.fail("Write")
	th.pass(delta)
	p.perform("Read")
	effect()
	p.perform("Write")
	p.settle()
	p.perform("Read")
	th.want("its second write was in time", p, true)
	if !slices.Equal(p.outcomes, []string{"Acquired", "Trouble", "Renewed"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
}

// Q's looks are so slow that each answer is older than Δ+6δ. Q's last sight does not show that
// P is dead: P may have renewed since that look began, and did.
func slowObserver(th *theater) {
	p, q := th.contend(), th.contend()
	p.win()
	for range 3 { // it would write at the third time, to raise δ: see slowLooks
		q.idle(2 * delta)
		for len(q.pending) == 0 {
			th.pass(delta / 10)
		}
		effect, answer := q.stuck("Read")
		effect()
		for began := th.w.Now(); th.w.Now()-began < wait+delta; {
			p.renew()
		}
		answer()
		if q.writes() {
			th.t.Error("Q writes while P renews")
			q.perform("Write")
		}
	}
	p.renew()
	th.want("it has renewed in time, always", p, true)
}

// The token that the register shows is the holder's, however often it has renewed.
func keptToken(th *theater) {
	p := th.contend()
	p.win()
	for range 3 {
		p.renew()
		th.want("it renews", p, true)
		st, err := disklease.Look(th.reg.show(th.reg.value))
		if err != nil || len(st.Members) != 1 || st.Members[0].Token != p.hold.token {
			th.t.Fatalf("the register shows %+v, %v; want the token %d", st, err, p.hold.token)
		}
	}
}
