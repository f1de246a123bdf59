package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Figure 2's race: the read-back sorts it out.
func bothSeeItFree(th *theater) {
	p, q := th.contend(), th.contend()
	p.perform("Read")
	q.perform("Read")
	p.perform("Write")
	th.pass(delta)
	q.perform("Write")
	th.pass(delta + time.Microsecond)
	p.perform("Read")
	th.want("its write was overwritten", p, false)
	th.pass(delta)
	q.perform("Read")
	th.want("it wrote last", q, true)
}

// P's write gets stuck while Q takes the lease, and comes in on top. Fail-aware check 1.
func stuckWrite(th *theater) {
	q, p := th.contend(), th.contend()
	p.perform("Read")
	effect, answer := p.stuck("Write")
	q.win()
	effect()
	answer()
	p.settle()
	if len(p.pending) > 0 {
		p.perform("Read")
	}
	th.want("a write that took longer than 2δ", p, false)
	th.want("nobody else holds", q, true)
	// Its entry has to be waited out by everybody, its claim included.
	p.idle(wait - delta)
	th.want("its own entry is not yet dead", p, false)
}

// The answer to the read-back comes late. Fail-aware check 2: Q has seen P's stamp when
// it was written, and counts from there.
func lateReadBack(th *theater) {
	p, q := th.contend(), th.contend()
	p.perform("Read")
	p.perform("Write")
	q.perform("Read")
	p.settle()
	effect, answer := p.stuck("Read")
	effect()
	q.idle(wait + delta)
	answer()
	th.want("a lease that is over when it is confirmed", p, false)
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("the stamp has not changed for Δ+6δ", q, true)
}

// A claim's own write that came too late is as good as another's.
func ownStaleEntry(th *theater) {
	p := th.contend()
	p.perform("Read")
	effect, answer := p.stuck("Write")
	effect()
	th.pass(3 * delta)
	answer()
	p.idle(wait / 2)
	if p.writes() {
		th.t.Errorf("P goes on at once: %+v", p.pending)
	}
}

func damagedRecord(th *theater) {
	th.reg.put(machine.Value{Version: machine.Version{Seq: 7}, Data: []byte("somebody else's")})
	p := th.contend()
	p.idle(3 * wait)
	if !slices.Contains(p.outcomes, "Trouble") || slices.Contains(p.outcomes, "Acquired") || p.writes() {
		th.t.Errorf("outcomes %v, writes %v; want trouble and no write", p.outcomes, p.writes())
	}
}

// The holder's clock is as slow as allowed, the other's as fast.
func driftingClocks(th *theater) {
	const ppm = 300_000
	p := th.enter(disklease.Config{Drift: ppm}, disklease.Acquire{})
	q := th.enter(disklease.Config{Drift: ppm}, disklease.Acquire{})
	p.host.Drift(-ppm / 1e6)
	q.host.Drift(+ppm / 1e6)
	p.perform("Read")
	p.perform("Write")
	q.perform("Read")
	q.perform("Note")
	p.settle()
	th.pass(2 * delta) // its clock is slow
	p.perform("Read")
	th.want("nobody else", p, true)
	q.idle(2 * wait)
	q.perform("Write")
	th.pass(3 * delta)
	q.perform("Read")
	th.want("P's lease has run out", q, true)
}

func lockDelay(th *theater) {
	p := th.enter(disklease.Config{LockDelay: 2 * term}, disklease.Acquire{})
	q := th.contend()
	p.win()
	q.perform("Read")
	q.perform("Note")
	p.host.Crash()
	began := th.w.Now()
	q.idle(4 * wait)
	if passed := th.w.Now() - began; passed < wait+2*term || passed > wait+2*term+4*delta {
		th.t.Errorf("Q writes after %v, want a lock delay of %v beside %v", passed, 2*term, wait)
	}
}

// A single look cannot tell a dead holder from a living one, but tells the next.
func twoLooks(th *theater) {
	p := th.contend()
	p.win()
	p.host.Crash()
	first := th.enter(disklease.Config{}, disklease.TryAcquire{})
	first.perform("Read")
	if !slices.Equal(first.outcomes, []string{"Refused"}) {
		th.t.Fatalf("the first look: %v", first.outcomes)
	}
	soon := first.again()
	soon.perform("Read")
	if !slices.Equal(soon.outcomes, []string{"Refused"}) {
		th.t.Fatalf("a look too soon: %v", soon.outcomes)
	}
	th.pass(wait + delta)
	soon.again().win()
}
