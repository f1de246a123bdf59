package diskleasesim

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// The write of a renewal gets stuck beyond the deadline. Fail-aware check 3.
func lateRenewal(th *theater) {
	p, q := th.contends(), th.contends()
	p.wins()
	q.does("Read")
	q.does("Note")
	th.pass(term / 3)
	p.does("Read")
	effect, answer := p.stuck("Write")
	q.idles(wait + delta)
	effect()
	answer()
	p.settles()
	if len(p.pending) > 0 {
		p.does("Read")
	}
	th.want("its renewal came late", p, false)
	if !slices.Contains(p.outcomes, "Lost") {
		th.t.Errorf("the loser was told %v", p.outcomes)
	}
}

// Another's stuck write comes in between a renewal and its read-back.
func overwrittenRenewal(th *theater) {
	p, q := th.contends(), th.contends()
	q.does("Read")
	p.wins()
	th.pass(term / 3)
	p.does("Read")
	p.does("Write")
	p.settles()
	x := q.takes("Write") // which has been under way all the time
	th.reg.put(machine.Value{Version: machine.Version{Seq: 9, Writer: q.id}, Data: x.Op.(machine.Write).Data})
	p.does("Read")
	th.want("the read-back shows another", p, false)
}

// A stamp that changes restarts the wait of its watchers.
func renewedEntry(th *theater) {
	p, q := th.contends(), th.contends()
	p.wins()
	for range 8 {
		q.idles(term / 3)
		p.does("Read")
		p.does("Write")
		p.settles()
		p.does("Read")
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
	p := th.contends()
	p.wins()
	th.pass(term / 3)
	p.does("Read")
	effect := p.fails("Write")
	th.pass(delta)
	p.does("Read")
	effect()
	p.does("Write")
	p.settles()
	p.does("Read")
	th.want("its second write was in time", p, true)
	if !slices.Equal(p.outcomes, []string{"Acquired", "Trouble", "Renewed"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
}

// Q's looks are so slow that each answer is older than Δ+6δ. Q's last sight does not show that
// P is dead: P may have renewed since that look began, and did.
func slowObserver(th *theater) {
	p, q := th.contends(), th.contends()
	p.wins()
	for range 3 { // it would write at the third time, to raise δ: see slowLooks
		q.idles(2 * delta)
		for len(q.pending) == 0 {
			th.pass(delta / 10)
		}
		effect, answer := q.stuck("Read")
		effect()
		for began := th.w.Now(); th.w.Now()-began < wait+delta; {
			p.renews()
		}
		answer()
		if q.writes() {
			th.t.Error("Q writes while P renews")
			q.does("Write")
		}
	}
	p.renews()
	th.want("it has renewed in time, always", p, true)
}

// The token that the register shows is the holder's, however often it has renewed.
func keptToken(th *theater) {
	p := th.contends()
	p.wins()
	for range 3 {
		p.renews()
		th.want("it renews", p, true)
		st, err := disklease.Look(th.reg.show(th.reg.value))
		if err != nil || len(st.Members) != 1 || st.Members[0].Token != p.hold.token {
			th.t.Fatalf("the register shows %+v, %v; want the token %d", st, err, p.hold.token)
		}
	}
}
