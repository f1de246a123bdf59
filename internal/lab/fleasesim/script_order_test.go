package fleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// E1: the fuzzy comparison of 3.6 is no order. a > b and b > c by index, for they are
// within ε, and c > a by time. Three reads are each accepted as the greatest, and two
// writes.
func strictOrder(th *theater) {
	a := th.acquire(3, flease.Acquire{})
	th.pass(160 * time.Millisecond)
	th.acquire(2, flease.Acquire{})
	th.pass(160 * time.Millisecond)
	c := th.acquire(1, flease.Acquire{})
	for _, p := range []*client{c, {p: th.p(2)}, a} {
		for _, acceptor := range th.view.Members[:2] {
			th.deliver(p.p.host.ID, acceptor, flease.Read)
		}
	}
	for _, p := range []*client{a, c} {
		for _, acceptor := range th.view.Members[:2] {
			th.back(acceptor, p.p.host.ID)
		}
		for _, acceptor := range th.view.Members[:2] {
			th.ask(p.p.host.ID, acceptor, flease.Write)
		}
	}
	th.wantHeld("the greatest ballot wins", c, true)
	th.wantHeld("it was refused", a, false)
}

// Scalar counting: one acceptor's answer comes twice. That is no majority.
func distinctAcceptors(th *theater) {
	c := th.acquire(1, flease.Acquire{})
	th.deliver(1, 4, flease.Read)
	again := th.letters(4, 1, flease.AckRead)[0]
	th.back(4, 1)
	th.bring(again)
	if len(th.letters(1, 4, flease.Write)) != 0 {
		th.t.Error("a read commits by the answers of one acceptor")
	}
	th.ask(1, 5, flease.Read)
	th.deliver(1, 4, flease.Write)
	again = th.letters(4, 1, flease.AckWrite)[0]
	th.back(4, 1)
	th.bring(again)
	th.wantHeld("one acceptor is no majority", c, false)
	th.lost(1, 5, flease.Write)
	th.lost(1, 6, flease.Write)
	d := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 5, kind)
		th.ask(2, 6, kind)
	}
	th.wantHeld("nobody had a majority before", d, true)
}

// A promise is kept: a write under a lesser ballot than one that was promised is refused,
// and so is a read.
func promiseKept(th *theater) {
	a := th.acquire(1, flease.Acquire{})
	th.ask(1, 4, flease.Read)
	th.ask(1, 5, flease.Read)
	th.pass(time.Millisecond)
	b := th.acquire(2, flease.Acquire{})
	th.ask(2, 4, flease.Read)
	th.ask(2, 5, flease.Read)
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	th.ask(2, 4, flease.Write)
	th.ask(2, 5, flease.Write)
	th.wantHeld("the later read was promised", b, true)
	th.wantHeld("the write came too late", a, false)
}

// A look promises nothing: the owner's renewal is not refused after it.
func looksPromiseNothing(th *theater) {
	c := th.win(1, 4, 5)
	th.pass(tmax/2 - 10*time.Millisecond)
	for range 40 { // until its READ is out
		if len(th.letters(1, 4, flease.Read)) > 0 {
			break
		}
		th.pass(10 * time.Millisecond)
	}
	p := th.p(2)
	p.claims[99] = &client{p: p, quiet: true}
	p.host.Step(flease.Observe{ID: 99, Name: "r"})
	th.pass(0)
	th.ask(2, 4, flease.Peek)
	th.ask(2, 5, flease.Peek)
	before := c.hold.deadline.Deadline
	th.ask(1, 4, flease.Read)
	th.ask(1, 5, flease.Read)
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	if c.hold.deadline.Deadline == before {
		th.t.Error("the renewal failed because somebody looked")
	}
}

// A caller that tries while another holds does not disturb the renewal, however often: between
// each READ and WRITE of the owner, another's READ comes in.
func triesDisturbNothing(th *theater) {
	c := th.win(1, 4, 5)
	for end := th.w.Now() + tmax + eps; th.w.Now() < end && c.hold != nil; th.pass(100 * time.Millisecond) {
		th.ask(1, 4, flease.Read)
		th.ask(1, 5, flease.Read)
		th.acquire(2, flease.Acquire{Try: true})
		th.ask(2, 4, flease.Read)
		th.ask(2, 5, flease.Read)
		th.ask(1, 4, flease.Write)
		th.ask(1, 5, flease.Write)
	}
	th.wantHeld("it renews though others try", c, true)
	if len(th.p(2).claims) > 0 {
		th.t.Errorf("%d tries are not answered", len(th.p(2).claims))
	}
}

// A claim that one acceptor knows to keep another out is released, as the other acceptor knows:
// then both are asked to promise.
func keptOutByTheStale(th *theater) {
	a := th.win(1, 4, 5)
	th.release(a)
	th.ask(1, 4, flease.Write) // the release reaches no other
	th.wire = nil
	b := th.acquire(2, flease.Acquire{Try: true})
	for _, kind := range acquisition {
		th.ask(2, 4, kind)
		th.ask(2, 5, kind)
	}
	th.wantHeld("it was released", b, true)
}

// F-3: a ballot of a clock that is an hour ahead is refused, is not remembered, and moves no
// peer's ballots; neither does a refusal that names one.
func skewRefused(th *theater) {
	th.j.broken = true
	far := flease.BallotOf(flease.TimeOf(th.p(1).host.Now().Wall)+3600*1000, 0, 2)
	th.bring(letter{2, 4, th.head(2), flease.Op{Kind: flease.Read, Ref: 7, Ballot: far, Name: "r"}})
	if len(th.letters(4, 2, flease.Skewed)) != 1 {
		th.t.Error("the ballot is not refused as being ahead")
	}
	c := th.acquire(4, flease.Acquire{}) // on the acceptor's own clock
	mine := th.letters(4, 5, flease.Read)[0].op.Ballot
	if mine > far {
		th.t.Errorf("the acceptor's own ballots follow a wrong clock: %v", mine)
	}
	th.bring(letter{6, 4, th.head(6), flease.Op{Kind: flease.NackRead, Ref: th.letters(4, 6, flease.Read)[0].op.Ref, Ballot: mine, Written: far}})
	th.ask(4, 5, flease.Read)
	th.ask(4, 5, flease.Write)
	th.wantHeld("the resource goes on", c, true)
	th.acquire(4, flease.Acquire{Slots: 2})
	if next := th.letters(4, 5, flease.Read); len(next) == 0 || next[len(next)-1].op.Ballot > far {
		th.t.Errorf("a refusal that names a wrong clock's ballot moves ours: %v", next)
	}
}

// F-6: a forgotten ballot is refused, the very millisecond.
func forgettingExact(th *theater) {
	p := th.p(4)
	now := flease.TimeOf(p.host.Now().Wall)
	for _, age := range []flease.Time{0, 1} {
		k := flease.BallotOf(now-flease.Time((tmax+2*eps)/time.Millisecond)+age, 0, 2)
		th.bring(letter{2, 4, th.head(2), flease.Op{Kind: flease.Read, Ref: 7, Ballot: k, Name: "r"}})
		if n := th.pick(4, 2, 0, false); n != int(age) {
			th.t.Errorf("a ballot %d ms younger than what may be forgotten: %d answers, want %d", age, n, age)
		}
	}
}

// A WRITE whose lease ends later than its ballot allows is refused: recovery counts on it.
func leaseWithinBallot(th *theater) {
	now := flease.TimeOf(th.p(4).host.Now().Wall)
	k := flease.BallotOf(now, 0, 2)
	for _, over := range []flease.Time{1, 0} {
		v := flease.Value{{Token: k, Until: now + flease.Time(tmax/time.Millisecond) + over, Owner: 2, Incarnation: 1, Slots: 1}}
		th.bring(letter{2, 4, th.head(2), flease.Op{Kind: flease.Write, Ref: 7, Ballot: k, Name: "r", Value: v}})
		if n := th.pick(4, 2, 0, false); n != 1-int(over) {
			th.t.Errorf("a lease %d ms too long: %d answers", over, n)
		}
	}
}

// A read is refused if a greater ballot was promised: else its write would be the lesser
// one behind a greater, and both would be decided.
func readRefused(th *theater) {
	th.acquire(1, flease.Acquire{})
	th.pass(time.Millisecond)
	th.acquire(2, flease.Acquire{})
	th.ask(2, 4, flease.Read)
	th.ask(2, 5, flease.Read)
	th.deliver(1, 4, flease.Read)
	if len(th.letters(4, 1, flease.NackRead)) != 1 || len(th.letters(4, 1, flease.AckRead)) != 0 {
		th.t.Errorf("a read under a lesser ballot than the one promised is answered with %+v", th.wire)
	}
}
