package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// T-3: a release that comes in when another holds frees no lease.
func lateRelease(th *theater) {
	p, q := th.contend(), th.contend()
	p.win()
	q.perform("Read")
	q.perform("Note")
	p.leave()
	effect, _ := p.stuck("Note")
	q.idle(wait + delta)
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("P's lease has run out", q, true)
	effect()
	r := th.contend()
	r.perform("Read")
	r.perform("Note")
	th.want("Q holds", r, false)
}

// P's write came in late over Q's; P gives up. No process may take that for a release: Q holds.
func unconfirmedRelease(th *theater) {
	q, p := th.contend(), th.contend()
	p.perform("Read")
	effect, answer := p.stuck("Write")
	q.win()
	effect()
	answer()
	p.leave()
	if len(p.pending) > 0 {
		p.perform("Note")
	}
	r := th.contend()
	r.perform("Read")
	if r.writes() {
		th.t.Error("R writes while Q holds")
		r.perform("Write")
		r.settle()
		r.perform("Read")
	}
}

// P's renewal gets stuck until Q holds, and comes in over Q's record; then P releases its
// tenure. The stamp of the renewal is another, and hides Q.
func releasedStamp(th *theater) {
	q, p := th.enter(disklease.Config{}, disklease.Acquire{}), th.contend()
	p.win()
	q.perform("Read")
	q.perform("Note")
	th.pass(term / 3)
	p.perform("Read")
	effect, answer := p.stuck("Write")
	q.idle(wait + delta)
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("P's lease has run out", q, true)
	effect()
	answer()
	p.leave()
	p.perform("Note")
	r := th.contend()
	r.idle(wait - delta) // by then it does not take Q for one that waits any more
	if r.writes() {
		th.t.Error("R writes over an entry that may hide somebody")
	}
}

// P knows the delay, so it may renew without reading itself back. It releases its last write.
func releaseAfterBlindRenewal(th *theater) {
	p := th.enter(disklease.Config{Renewal: disklease.KnownDelay}, disklease.Acquire{})
	p.win()
	th.pass(term / 3)
	p.perform("Write")
	p.leave()
	p.perform("Note")
	q := th.contend()
	if q.perform("Read"); !q.writes() {
		th.t.Error("Q waits for a lease that was renewed and released")
	}
}

// A renewal under way when the holder releases must not come in after the release.
func releaseDuringRenewal(th *theater) {
	p := th.contend()
	p.win()
	th.pass(term / 3)
	p.perform("Read")
	effect, answer := p.stuck("Write")
	p.leave()
	if len(p.pending) > 0 {
		th.t.Fatalf("released while a renewal is under way: %+v", p.pending)
	}
	effect()
	answer()
	p.settle()
	p.perform("Read")
	p.perform("Note")
	if !slices.Equal(p.outcomes, []string{"Acquired", "Left"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
	q := th.contend()
	q.win()
}

// The renewal that is under way when P is told to leave gets stuck until Q holds, and
// comes in on top. Its stamp was never held in time: to release it would let R in.
func releaseDuringStuckRenewal(th *theater) {
	q, p := th.enter(disklease.Config{Term: longTerm}, disklease.Acquire{}), th.enter(disklease.Config{Term: longTerm}, disklease.Acquire{})
	p.win()
	q.perform("Read")
	q.perform("Note")
	th.pass(longTerm/3 + time.Millisecond)
	p.perform("Read")
	effect, answer := p.stuck("Write")
	p.leave()
	q.idle(longTerm + 7*delta)
	q.perform("Write")
	q.settle()
	q.perform("Read")
	th.want("P's lease has run out", q, true)
	effect()
	answer()
	p.settle()
	if len(p.pending) > 0 && !p.notes() {
		p.perform("Read")
	}
	p.perform("Note")
	r := th.enter(disklease.Config{Term: longTerm}, disklease.TryAcquire{})
	r.perform("Read")
	if r.writes() {
		th.t.Error("R writes while Q holds")
	}
}

// A claim that leaves hears that it has left, also if the answer to its try comes later.
func leftAfterRefusal(th *theater) {
	p := th.enter(disklease.Config{}, disklease.TryAcquire{})
	p.perform("Read")
	x := p.takes("Write")
	p.leave()
	p.host.Accessed(machine.Accessed{ID: x.ID, Err: errStore})
	th.pass(0)
	if !slices.Contains(p.outcomes, "Left") {
		th.t.Errorf("outcomes %v, want it to have left", p.outcomes)
	}
}

// The store does not take P's release at once.
func failedRelease(th *theater) {
	p := th.contend()
	p.win()
	p.leave()
	p.fail("Note")
	th.pass(2 * delta)
	p.fail("Note")
	th.pass(4 * delta)
	p.perform("Note")
	if !slices.Equal(p.outcomes, []string{"Acquired", "Trouble", "Trouble", "Left"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
	th.contend().win()
}

// P learns that it has lost its lease, and leaves. The lock delay is there for this: a write
// that P sent while it held may still be on its way, so it must not say that it is gone.
func leftAfterLoss(th *theater) {
	p := th.enter(disklease.Config{LockDelay: 2 * term}, disklease.Acquire{})
	q := th.contend()
	p.win()
	q.perform("Read")
	q.perform("Note")
	began := th.w.Now()
	th.pass(term / 3)
	effect, answer := p.stuck("Read")
	effect()
	th.pass(term)
	p.leave()
	answer()
	if p.notes() {
		p.perform("Note")
	}
	if !slices.Equal(p.outcomes, []string{"Acquired", "Lost", "Left"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
	q.idle(4 * wait)
	if passed := th.w.Now() - began; passed < wait+2*term {
		th.t.Errorf("Q writes after %v, want a lock delay of %v beside %v", passed, 2*term, wait)
	}
}
