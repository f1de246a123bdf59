package fleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// The holder rule, the other clock: the synchronized one is slewed forward while it
// holds. It ends the tenure before the monotonic one does, and nothing renews it any more.
func wallEndsTenures(th *theater) {
	a := th.win(1, 4, 5)
	p := a.p
	p.host.SlewWall(4e-3)
	th.pass(time.Duration(a.hold.deadline.Until-p.host.Now().Wall) - 50*time.Millisecond)
	p.host.Wake()
	th.pass(0)
	if a.id == 0 {
		th.t.Error("the tenure ends too early")
	}
	for p.host.Now().Wall < a.hold.deadline.Until {
		th.pass(time.Millisecond)
	}
	if left := a.hold.deadline.Deadline - p.host.Mono(); left < machine.Mono(10*time.Millisecond) {
		th.t.Fatalf("by the monotonic clock there are only %v left", time.Duration(left))
	}
	th.ask(1, 4, flease.Read) // of a renewal that is under way
	th.ask(1, 5, flease.Read)
	if a.id != 0 || len(th.letters(1, 4, flease.Write)) > 0 {
		th.t.Error("the tenure lasts beyond the synchronized clock's end")
	}
}

// The lock delay of a holder that dies is waited for, after a renewal, too.
func lockDelay(th *theater) {
	a := th.acquire(1, flease.Acquire{TTL: 4 * round, LockDelay: tmax - 4*round})
	th.settle()
	first := a.hold.deadline.Until
	th.letFlow(4*round, func() bool { return a.hold.deadline.Until > first })
	th.p(1).crash(time.Hour)
	b := th.acquire(2, flease.Acquire{})
	th.letFlow(2*tmax, func() bool { return b.hold != nil })
	th.wantHeld("the lock delay is over", b, true)
}

// A holder in another process goes on when its peer is started again, with the state of the
// life before, and does not hear of it. The peer itself, too, has to wait for it.
func holderOutlivesItsPeer(th *theater) {
	a := th.acquire(4, flease.Acquire{})
	a.remote = true
	th.settle()
	held, calm := a.hold, th.p(4).host.Outcome
	th.p(4).host.Outcome = func(out flease.Report) {
		if s, ok := out.(flease.Snapshot); ok {
			th.p(4).leave(s, time.Millisecond)
			return
		}
		calm(out)
	}
	th.p(4).restart()
	th.letFlow(tmax/2, func() bool { return th.p(4).incarnation == 2 && th.p(4).serving })
	if !held.believes() {
		th.t.Fatal("the restart took too long")
	}
	b := th.acquire(4, flease.Acquire{})
	th.letFlow(2*tmax, func() bool { return b.hold != nil })
	th.wantHeld("the holder of before has stopped", b, true)
}

// letFlow lets time pass and everything arrive, until done.
func (th *theater) letFlow(most time.Duration, done func() bool) {
	th.t.Helper()
	for end := th.w.Now() + most; !done(); th.settle() {
		if th.w.Now() >= end {
			th.t.Fatalf("nothing comes of it within %v", most)
		}
		th.pass(10 * time.Millisecond)
	}
}

// E12: a refusal does not abort an operation to which a majority agrees.
func oneRefusal(th *theater) {
	a := th.acquire(1, flease.Acquire{})
	th.pass(time.Millisecond)
	th.acquire(2, flease.Acquire{})
	th.ask(2, 6, flease.Read)
	for _, kind := range acquisition {
		th.ask(1, 6, kind) // refuses
		th.ask(1, 4, kind)
		th.ask(1, 5, kind)
	}
	th.wantHeld("4 and 5 agree", a, true)
}

// E10: a request that comes twice is answered twice, the same: the first answer may be lost.
func copiesDoNoHarm(th *theater) {
	a := th.acquire(1, flease.Acquire{})
	for _, kind := range []flease.Kind{flease.Read, flease.Write} {
		for _, l := range append(th.letters(1, 4, kind), th.letters(1, 5, kind)...) {
			th.bring(l)
		}
		th.wire = dropFrom(th.wire, 4, 5)
		th.ask(1, 4, kind)
		th.ask(1, 5, kind)
	}
	th.wantHeld("it was answered the second time", a, true)
}

func dropFrom(wire []letter, ids ...machine.NodeID) (kept []letter) {
	for _, l := range wire {
		if l.from != ids[0] && l.from != ids[1] {
			kept = append(kept, l)
		}
	}
	return kept
}

// E14: no peer draws ballots for another; they would not be unique any more.
func ballotsOfOthers(th *theater) {
	now := flease.TimeOf(th.p(4).host.Now().Wall)
	for _, member := range []machine.NodeID{3, 2} {
		th.bring(letter{2, 4, th.head(2), flease.Op{Kind: flease.Read, Ref: 7, Ballot: flease.BallotOf(now, 5, member), Name: "r"}})
		if n := th.pick(4, 2, 0, false); (n == 1) != (member == 2) {
			th.t.Errorf("peer 2 reads under a ballot of %d and gets %d answers", member, n)
		}
	}
}

// A silent peer proposes nothing either: its ballots might be those of its life before.
func silentProposesNothing(th *theater) {
	th.p(1).crash(0)
	th.pass(0)
	th.wire = nil
	th.acquire(1, flease.Acquire{})
	for end := th.w.Now() + wait - time.Second; th.w.Now() < end; th.pass(100 * time.Millisecond) {
		if len(th.wire) > 0 {
			th.t.Fatalf("it sends %+v in its quarantine", th.wire[0])
		}
	}
	for end := th.w.Now() + 2*time.Second; th.w.Now() < end && len(th.wire) == 0; {
		th.pass(10 * time.Millisecond)
	}
	if len(th.wire) == 0 {
		th.t.Error("its claim is forgotten after the quarantine")
	}
}

// The paper's GetLease writes back the lease that it finds, so that it is decided; a caller
// that only tries does not.
func decidesWhatItFinds(th *theater) {
	a := th.win(1, 4, 5)
	th.wire = nil
	for _, decide := range []bool{false, true} {
		th.pass(time.Millisecond)
		th.acquire(2, flease.Acquire{Try: true, Decide: decide})
		th.ask(2, 5, flease.Read)
		th.ask(2, 6, flease.Read)
		w := th.letters(2, 6, flease.Write)
		if decide != (len(w) == 1) {
			th.t.Fatalf("decide: %v, and it writes %+v", decide, w)
		}
		if decide && (len(w[0].op.Value) != 1 || uint64(w[0].op.Value[0].Token) != a.hold.token) {
			th.t.Errorf("it writes another's lease as %+v", w[0].op.Value)
		}
	}
	th.ask(2, 5, flease.Write)
	th.ask(2, 6, flease.Write)
	if len(th.p(2).claims) > 0 {
		th.t.Error("its caller hears nothing")
	}
	th.wantHeld("somebody has written its lease back", a, true)
}

// The token is the ballot of a tenure's first WRITE, and stays that over renewals.
func tokenStays(th *theater) {
	a := th.win(1, 4, 5)
	before := a.hold.deadline.Deadline
	for end := th.w.Now() + tmax; th.w.Now() < end && a.hold != nil && a.hold.deadline.Deadline == before; th.pass(100 * time.Millisecond) {
		for _, kind := range []flease.Kind{flease.Read, flease.Write} {
			for _, l := range th.letters(1, 4, kind) {
				if kind == flease.Write && (uint64(l.op.Value[0].Token) != a.hold.token || uint64(l.op.Ballot) == a.hold.token) {
					th.t.Fatalf("a renewal of token %d writes %+v", a.hold.token, l.op)
				}
			}
			th.ask(1, 4, kind)
			th.ask(1, 5, kind)
		}
	}
	th.wantHeld("it has renewed", a, true)
	if a.hold.deadline.Deadline == before {
		th.t.Error("it has not renewed")
	}
}

// No acceptor votes in a view that it does not know.
func unknownEpoch(th *theater) {
	head := th.head(2)
	now := flease.TimeOf(th.p(4).host.Now().Wall)
	for range 2 {
		th.bring(letter{2, 4, head, flease.Op{Kind: flease.Read, Ref: 7, Ballot: flease.BallotOf(now, 5, 2), Name: "r"}})
		answers := th.wire
		th.wire = nil
		if len(answers) != 1 || (answers[0].op.Kind == flease.WrongView) != (head.Epoch == 9) {
			th.t.Errorf("a request of view %d is answered with %+v", head.Epoch, answers)
		}
		head.Epoch = 9
	}
}
