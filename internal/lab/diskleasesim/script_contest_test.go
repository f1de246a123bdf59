package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Figure 2's race: the read-back sorts it out.
func bothSeeItFree(th *theater) {
	p, q := th.contends(), th.contends()
	p.does("Read")
	q.does("Read")
	p.does("Write")
	th.pass(delta)
	q.does("Write")
	th.pass(delta + time.Microsecond)
	p.does("Read")
	th.want("its write was overwritten", p, false)
	th.pass(delta)
	q.does("Read")
	th.want("it wrote last", q, true)
}

// P's write gets stuck while Q takes the lease, and comes in on top. Fail-aware check 1.
func stuckWrite(th *theater) {
	q, p := th.contends(), th.contends()
	p.does("Read")
	effect, answer := p.stuck("Write")
	q.wins()
	effect()
	answer()
	p.settles()
	if len(p.pending) > 0 {
		p.does("Read")
	}
	th.want("a write that took longer than 2δ", p, false)
	th.want("nobody else holds", q, true)
	// Its entry has to be waited out by everybody, its claim included.
	p.idles(wait - delta)
	th.want("its own entry is not yet dead", p, false)
}

// The answer to the read-back comes late. Fail-aware check 2: Q has seen P's stamp when
// it was written, and counts from there.
func lateReadBack(th *theater) {
	p, q := th.contends(), th.contends()
	p.does("Read")
	p.does("Write")
	q.does("Read")
	p.settles()
	effect, answer := p.stuck("Read")
	effect()
	q.idles(wait + delta)
	answer()
	th.want("a lease that is over when it is confirmed", p, false)
	q.does("Write")
	q.settles()
	q.does("Read")
	th.want("the stamp has not changed for Δ+6δ", q, true)
}

// A claim's own write that came too late is as good as another's.
func ownStaleEntry(th *theater) {
	p := th.contends()
	p.does("Read")
	effect, answer := p.stuck("Write")
	effect()
	th.pass(3 * delta)
	answer()
	p.idles(wait / 2)
	if p.writes() {
		th.t.Errorf("P goes on at once: %+v", p.pending)
	}
}

func damagedRecord(th *theater) {
	th.reg.put(machine.Value{Version: machine.Version{Seq: 7}, Data: []byte("somebody else's")})
	p := th.contends()
	p.idles(3 * wait)
	if !slices.Contains(p.outcomes, "Trouble") || slices.Contains(p.outcomes, "Acquired") || p.writes() {
		th.t.Errorf("outcomes %v, writes %v; want trouble and no write", p.outcomes, p.writes())
	}
}

// The holder's clock is as slow as allowed, the other's as fast.
func driftingClocks(th *theater) {
	const ppm = 300_000
	p := th.enters(disklease.Config{Drift: ppm}, disklease.Acquire{})
	q := th.enters(disklease.Config{Drift: ppm}, disklease.Acquire{})
	p.host.Drift(-ppm / 1e6)
	q.host.Drift(+ppm / 1e6)
	p.does("Read")
	p.does("Write")
	q.does("Read")
	q.does("Note")
	p.settles()
	th.pass(2 * delta) // its clock is slow
	p.does("Read")
	th.want("nobody else", p, true)
	q.idles(2 * wait)
	q.does("Write")
	th.pass(3 * delta)
	q.does("Read")
	th.want("P's lease has run out", q, true)
}

func lockDelay(th *theater) {
	p := th.enters(disklease.Config{LockDelay: 2 * term}, disklease.Acquire{})
	q := th.contends()
	p.wins()
	q.does("Read")
	q.does("Note")
	p.host.Crash()
	began := th.w.Now()
	q.idles(4 * wait)
	if passed := th.w.Now() - began; passed < wait+2*term || passed > wait+2*term+4*delta {
		th.t.Errorf("Q writes after %v, want a lock delay of %v beside %v", passed, 2*term, wait)
	}
}

// A single look cannot tell a dead holder from a living one, but tells the next.
func twoLooks(th *theater) {
	p := th.contends()
	p.wins()
	p.host.Crash()
	first := th.enters(disklease.Config{}, disklease.TryAcquire{})
	first.does("Read")
	if !slices.Equal(first.outcomes, []string{"Refused"}) {
		th.t.Fatalf("the first look: %v", first.outcomes)
	}
	soon := first.again()
	soon.does("Read")
	if !slices.Equal(soon.outcomes, []string{"Refused"}) {
		th.t.Fatalf("a look too soon: %v", soon.outcomes)
	}
	th.pass(wait + delta)
	soon.again().wins()
}
