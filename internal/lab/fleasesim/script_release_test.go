package fleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// release has a client's holder release.
func (th *theater) release(c *client) {
	th.j.onEnd(c.hold)
	c.left, c.hold = true, nil
	c.p.host.Step(flease.Release{ID: c.id})
	th.pass(0)
}

// A release that got stuck comes in when its owner holds anew. It frees nothing.
func staleRelease(th *theater) {
	a := th.win(1, 4, 5)
	th.release(a)
	stuck := [2]letter{th.letters(1, 4, flease.Write)[0], th.letters(1, 5, flease.Write)[0]}
	th.wire = nil
	th.pass(10 * time.Millisecond)
	b := th.win(1, 4, 5)
	th.bring(stuck[0])
	th.bring(stuck[1])
	th.pass(time.Millisecond)
	c := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 4, kind)
		th.ask(2, 5, kind)
	}
	th.wantHeld("it holds anew", b, true)
	th.wantHeld("the release was of an earlier tenure", c, false)
}

// Of a lease and the same released, under one ballot, released wins in whatever order they
// arrive.
func releasedWins(th *theater) {
	a := th.acquire(1, flease.Acquire{})
	th.ask(1, 4, flease.Read)
	th.ask(1, 5, flease.Read)
	late := th.letters(1, 5, flease.Write)[0]
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	th.release(a)
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	if a.id != 0 {
		th.t.Error("the release is not confirmed in one round")
	}
	th.bring(late)
	b := th.acquire(2, flease.Acquire{Try: true})
	for _, kind := range acquisition {
		th.ask(2, 5, kind)
		th.ask(2, 6, kind)
	}
	th.wantHeld("the lease was released", b, true)
}

// A release is one round though others have read since; a peer that has written since costs it
// a ballot of its own.
func releaseBehindReads(th *theater) {
	a := th.win(1, 4, 5)
	th.pass(time.Millisecond)
	th.acquire(2, flease.Acquire{Try: true, Decide: true})
	th.ask(2, 4, flease.Read)
	th.ask(2, 5, flease.Read)
	th.release(a)
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	if a.id != 0 {
		th.t.Error("the release is refused because somebody has looked")
	}
}

// F-4: a renewal has read when its owner releases. It finishes, and writes the release.
func releaseDuringRenewal(th *theater) {
	a := th.win(1, 4, 5)
	for len(th.letters(1, 4, flease.Read)) == 0 {
		th.pass(10 * time.Millisecond)
	}
	k := th.letters(1, 4, flease.Read)[0].op.Ballot
	th.deliver(1, 4, flease.Read)
	th.deliver(1, 5, flease.Read)
	th.release(a)
	if len(th.letters(1, 4, flease.Write)) > 0 {
		th.t.Error("the release does not wait for the READ that is promised")
	}
	th.back(4, 1)
	th.back(5, 1)
	if w := th.letters(1, 4, flease.Write); len(w) != 1 || w[0].op.Ballot != k || !w[0].op.Value[0].Released {
		th.t.Errorf("the READ does not end in the release: %+v", w)
	}
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	if a.id != 0 {
		th.t.Error("the release is not confirmed")
	}
}

// F-5: the release reached no acceptor, and its owner reads its own old lease. That tenure is
// over: the next has a token of its own.
func newTenureNewToken(th *theater) {
	a := th.win(1, 4, 5)
	th.release(a)
	th.wire = nil
	b := th.win(1, 4, 5) // at once: no other could hold it
	if b.hold == nil {
		th.t.Error("it waits for its own lease")
	}
}

// Algorithm 4's safety period: the lease is over on the taker's clock and not on the
// owner's, which is behind.
func safetyPeriod(th *theater) {
	owner, taker := th.p(1), th.p(2)
	owner.host.SlewWall(-1e-3)
	taker.host.SlewWall(1e-3)
	th.idle(90 * time.Second)
	owner.host.SlewWall(0)
	taker.host.SlewWall(0)
	a := th.win(1, 4, 5)
	token := a.hold.token
	th.wire = nil
	until := a.hold.deadline.Until
	th.pass(time.Duration(until-taker.host.Now().Wall) + time.Millisecond)
	b := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 4, kind)
		th.ask(2, 5, kind)
	}
	if b.hold != nil {
		th.t.Errorf("it takes the lease with token %d when its own clock shows the end, not ε later", token)
	}
}

// The holder rule: the synchronized clock is slewed back while it holds. The
// monotonic one ends the tenure.
func monoEndsTenures(th *theater) {
	const slew = -4e-3
	a := th.win(1, 4, 5)
	p := a.p
	p.host.SlewWall(slew)
	th.pass(time.Duration(a.hold.deadline.Deadline-p.host.Mono()) - 2*time.Millisecond)
	p.host.Wake()
	th.pass(0)
	if a.id == 0 {
		th.t.Error("the tenure ends too early")
	}
	th.pass(4 * time.Millisecond)
	p.host.Wake()
	th.pass(0)
	if a.id != 0 {
		th.t.Error("the tenure lasts beyond the monotonic clock's end")
	}
}

// A step of the synchronized clock is as good as a crash.
func clockJump(th *theater) {
	th.j.broken = true
	a := th.win(1, 4, 5)
	th.p(1).host.StepWall(-eps/4 - time.Millisecond)
	th.p(1).host.Wake()
	th.pass(0)
	if a.id != 0 || th.p(1).serving {
		th.t.Errorf("it goes on holding (%v) and serving (%v) though its clock was set back", a.id != 0, th.p(1).serving)
	}
}

// A sharer keeps the others' leases when it writes, and knows its own by its token.
func othersAreKept(th *theater) {
	a := th.acquire(1, flease.Acquire{Slots: flease.Shared})
	for _, kind := range acquisition {
		th.ask(1, 4, kind)
		th.ask(1, 5, kind)
	}
	b := th.acquire(2, flease.Acquire{Slots: flease.Shared})
	for _, kind := range acquisition {
		th.ask(2, 4, kind)
		th.ask(2, 5, kind)
	}
	th.wantHeld("two share", a, true)
	th.wantHeld("two share", b, true)
	for len(th.letters(2, 4, flease.Read)) == 0 {
		th.pass(10 * time.Millisecond)
	}
	th.lost(1, 4, 0)
	th.lost(1, 5, 0)
	th.lost(1, 6, 0)
	for _, kind := range acquisition {
		th.ask(2, 4, kind)
		th.ask(2, 5, kind)
	}
	c := th.acquire(3, flease.Acquire{Slots: 2})
	for _, kind := range acquisition {
		th.ask(3, 4, kind)
		th.ask(3, 5, kind)
	}
	th.wantHeld("two hold, and it bears one other", c, false)
}

// A lease counts when a majority has written it: its own peer does not take a write that is
// under way for one that is over.
func ownWriteUnderWay(th *theater) {
	a := th.acquire(1, flease.Acquire{})
	th.ask(1, 4, flease.Read)
	th.ask(1, 5, flease.Read)
	th.deliver(1, 4, flease.Write)
	th.deliver(1, 5, flease.Write)
	b := th.acquire(1, flease.Acquire{})
	th.deliver(1, 4, flease.Read)
	th.deliver(1, 5, flease.Read)
	for range 2 { // the second READ, if there is one
		th.deliver(4, 1, flease.Peeked)
		th.deliver(5, 1, flease.Peeked)
		th.deliver(1, 4, flease.Read)
		th.deliver(1, 5, flease.Read)
	}
	th.deliver(4, 1, flease.AckRead)
	th.deliver(5, 1, flease.AckRead)
	th.deliver(1, 4, flease.Write)
	th.deliver(1, 5, flease.Write)
	th.settle()
	th.wantHeld("it had a majority", a, true)
	th.wantHeld("another claim of the same peer", b, false)
}

// A release that reached a minority, and then needs a ballot of its own, is written under
// it: the majority may still show the lease.
func releaseOfAMinority(th *theater) {
	a := th.win(1, 4, 5)
	th.deliver(1, 6, 0)
	for len(th.letters(1, 4, flease.Read)) == 0 {
		th.pass(10 * time.Millisecond)
	}
	th.ask(1, 4, flease.Read)
	th.ask(1, 5, flease.Read)
	th.deliver(1, 4, flease.Write) // the renewal reaches 4 only
	th.wire = nil
	th.pass(time.Millisecond)
	th.acquire(2, flease.Acquire{Try: true, Decide: true}) // 5 and 6 promise a greater ballot
	th.deliver(2, 5, flease.Read)
	th.deliver(2, 6, flease.Read)
	th.wire = nil
	th.release(a)
	for _, id := range th.view.Members {
		th.ask(1, id, flease.Write)
	}
	th.ask(1, 4, flease.Read)
	th.ask(1, 5, flease.Read)
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	if a.id != 0 {
		th.t.Error("the release is not confirmed")
	}
	th.pass(time.Millisecond)
	c := th.acquire(3, flease.Acquire{Try: true})
	for _, kind := range acquisition {
		th.ask(3, 5, kind)
		th.ask(3, 6, kind)
	}
	th.wantHeld("the release was confirmed", c, true)
}
