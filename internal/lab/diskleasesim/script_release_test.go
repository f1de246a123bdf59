package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// T-3: a release that comes in when another holds frees no lease.
func lateRelease(th *theater) {
	p, q := th.contends(), th.contends()
	p.wins()
	q.does("Read")
	q.does("Note")
	p.leaves()
	effect, _ := p.stuck("Note")
	q.idles(wait + delta)
	q.does("Write")
	q.settles()
	q.does("Read")
	th.want("P's lease has run out", q, true)
	effect()
	r := th.contends()
	r.does("Read")
	r.does("Note")
	th.want("Q holds", r, false)
}

// P's write came in late over Q's; P gives up. No process may take that for a release: Q holds.
func unconfirmedRelease(th *theater) {
	q, p := th.contends(), th.contends()
	p.does("Read")
	effect, answer := p.stuck("Write")
	q.wins()
	effect()
	answer()
	p.leaves()
	if len(p.pending) > 0 {
		p.does("Note")
	}
	r := th.contends()
	r.does("Read")
	if r.writes() {
		th.t.Error("R writes while Q holds")
		r.does("Write")
		r.settles()
		r.does("Read")
	}
}

// P's renewal gets stuck until Q holds, and comes in over Q's record; then P releases its
// tenure. The stamp of the renewal is another, and hides Q.
func releasedStamp(th *theater) {
	q, p := th.enters(disklease.Config{}, disklease.Acquire{}), th.contends()
	p.wins()
	q.does("Read")
	q.does("Note")
	th.pass(term / 3)
	p.does("Read")
	effect, answer := p.stuck("Write")
	q.idles(wait + delta)
	q.does("Write")
	q.settles()
	q.does("Read")
	th.want("P's lease has run out", q, true)
	effect()
	answer()
	p.leaves()
	p.does("Note")
	r := th.contends()
	r.idles(wait - delta) // by then it does not take Q for one that waits any more
	if r.writes() {
		th.t.Error("R writes over an entry that may hide somebody")
	}
}

// P knows the delay, so it may renew without reading itself back. It releases its last write.
func releaseAfterBlindRenewal(th *theater) {
	p := th.enters(disklease.Config{Renewal: disklease.KnownDelay}, disklease.Acquire{})
	p.wins()
	th.pass(term / 3)
	p.does("Write")
	p.leaves()
	p.does("Note")
	q := th.contends()
	if q.does("Read"); !q.writes() {
		th.t.Error("Q waits for a lease that was renewed and released")
	}
}

// A renewal under way when the holder releases must not come in after the release.
func releaseDuringRenewal(th *theater) {
	p := th.contends()
	p.wins()
	th.pass(term / 3)
	p.does("Read")
	effect, answer := p.stuck("Write")
	p.leaves()
	if len(p.pending) > 0 {
		th.t.Fatalf("released while a renewal is under way: %+v", p.pending)
	}
	effect()
	answer()
	p.settles()
	p.does("Read")
	p.does("Note")
	if !slices.Equal(p.outcomes, []string{"Acquired", "Left"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
	q := th.contends()
	q.wins()
}

// The renewal that is under way when P is told to leave gets stuck until Q holds, and
// comes in on top. Its stamp was never held in time: to release it would let R in.
func releaseDuringStuckRenewal(th *theater) {
	q, p := th.enters(disklease.Config{Term: longTerm}, disklease.Acquire{}), th.enters(disklease.Config{Term: longTerm}, disklease.Acquire{})
	p.wins()
	q.does("Read")
	q.does("Note")
	th.pass(longTerm/3 + time.Millisecond)
	p.does("Read")
	effect, answer := p.stuck("Write")
	p.leaves()
	q.idles(longTerm + 7*delta)
	q.does("Write")
	q.settles()
	q.does("Read")
	th.want("P's lease has run out", q, true)
	effect()
	answer()
	p.settles()
	if len(p.pending) > 0 && !p.notes() {
		p.does("Read")
	}
	p.does("Note")
	r := th.enters(disklease.Config{Term: longTerm}, disklease.TryAcquire{})
	r.does("Read")
	if r.writes() {
		th.t.Error("R writes while Q holds")
	}
}

// A claim that leaves hears that it has left, also if the answer to its try comes later.
func leftAfterRefusal(th *theater) {
	p := th.enters(disklease.Config{}, disklease.TryAcquire{})
	p.does("Read")
	x := p.takes("Write")
	p.leaves()
	p.host.Accessed(machine.Accessed{ID: x.ID, Err: errStore})
	th.pass(0)
	if !slices.Contains(p.outcomes, "Left") {
		th.t.Errorf("outcomes %v, want it to have left", p.outcomes)
	}
}

// The store does not take P's release at once.
func failedRelease(th *theater) {
	p := th.contends()
	p.wins()
	p.leaves()
	p.fails("Note")
	th.pass(2 * delta)
	p.fails("Note")
	th.pass(4 * delta)
	p.does("Note")
	if !slices.Equal(p.outcomes, []string{"Acquired", "Trouble", "Trouble", "Left"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
	th.contends().wins()
}

// P learns that it has lost its lease, and leaves. The lock delay is there for this: a write
// that P sent while it held may still be on its way, so it must not say that it is gone.
func leftAfterLoss(th *theater) {
	p := th.enters(disklease.Config{LockDelay: 2 * term}, disklease.Acquire{})
	q := th.contends()
	p.wins()
	q.does("Read")
	q.does("Note")
	began := th.w.Now()
	th.pass(term / 3)
	effect, answer := p.stuck("Read")
	effect()
	th.pass(term)
	p.leaves()
	answer()
	if p.notes() {
		p.does("Note")
	}
	if !slices.Equal(p.outcomes, []string{"Acquired", "Lost", "Left"}) {
		th.t.Errorf("outcomes %v", p.outcomes)
	}
	q.idles(4 * wait)
	if passed := th.w.Now() - began; passed < wait+2*term {
		th.t.Errorf("Q writes after %v, want a lock delay of %v beside %v", passed, 2*term, wait)
	}
}
