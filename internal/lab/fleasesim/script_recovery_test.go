package fleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// E2: two proposers have read; one answer of each gets stuck, and the acceptor that both
// have asked crashes and comes back. In the paper both write a lease that counts from
// then on.
func anchoredExpiry(th *theater) {
	a := th.acquire(1, flease.Acquire{})
	th.ask(1, 4, flease.Read)
	th.deliver(1, 5, flease.Read)
	stuckA := th.letters(5, 1, flease.AckRead)[0]
	th.pass(time.Millisecond)
	b := th.acquire(2, flease.Acquire{})
	th.ask(2, 6, flease.Read)
	th.deliver(2, 5, flease.Read)
	stuckB := th.letters(5, 2, flease.AckRead)[0]
	th.wire = nil
	th.p(1).host.Pause()
	th.p(2).host.Pause()
	th.p(5).crash(0)
	th.pass(0)
	th.pass(wait + time.Millisecond)
	for _, l := range []letter{stuckA, stuckB} {
		th.bring(l)
		th.p(l.to).host.Resume()
		th.pass(0)
	}
	for _, id := range th.view.Members {
		th.ask(1, id, flease.Write)
	}
	th.lost(2, 4, flease.Write)
	th.ask(2, 5, flease.Write)
	th.ask(2, 6, flease.Write)
	th.wantHeld("its attempt is over since long", a, false)
	th.wantHeld("its attempt is over since long", b, false)
}

// An answer that comes after the time of its attempt counts for nothing, even if the alarm
// has not rung yet: the peer writes no more.
func lateAnswer(th *theater) {
	th.acquire(1, flease.Acquire{})
	th.ask(1, 4, flease.Read)
	th.deliver(1, 5, flease.Read)
	p := th.p(1)
	p.host.Pause()
	th.pass(2*round + time.Millisecond)
	l := th.letters(5, 1, flease.AckRead)[0]
	th.bring(l) // in the inbox before the alarm rings
	p.host.Resume()
	th.pass(0)
	if len(th.letters(1, 4, flease.Write)) > 0 {
		th.t.Error("it writes after its time")
	}
}

// E3 (i): the acceptor that knew of the lease comes back when t_max has passed on its own
// clock, and the owner's clock has gone slower meanwhile.
func recoveryOutlastsLeases(th *theater) {
	owner := th.p(1)
	owner.host.SlewWall(1e-3) // up to ε/2 ahead, and back behind while it holds
	th.idle(90 * time.Second)
	th.lost(1, 4, 0)
	th.t.Logf("the owner's clock is %v ahead", owner.offset())
	c := th.win(1, 4, 5)
	owner.host.SlewWall(-18e-3)
	th.p(5).crash(0)
	th.pass(0)
	th.pass(tmax + 20*time.Millisecond)
	d := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 5, kind)
		th.ask(2, 6, kind)
	}
	if c.hold == nil {
		th.wantHeld("a peer in quarantine votes", d, false)
	}
}

// E3 (ii): a promise is forgotten. P1's WRITE of a lesser ballot gets stuck on its way to
// the acceptor that had promised P2's. P2 holds, and renews; then the acceptor is back.
func forgottenPromise(th *theater) {
	th.p(1).host.SlewWall(-9e-3) // within ε, and P1 believes for longer
	b1 := th.acquire(1, flease.Acquire{})
	th.ask(1, 6, flease.Read)
	th.pass(time.Millisecond)
	b2 := th.acquire(2, flease.Acquire{})
	th.ask(1, 4, flease.Read) // P1 has read 4 and 6
	th.ask(2, 4, flease.Read)
	th.ask(2, 5, flease.Read) // P2 has read 4 and 5
	stuck := th.letters(1, 5, flease.Write)[0]
	th.ask(1, 6, flease.Write)
	th.p(5).crash(0)
	th.ask(2, 4, flease.Write)
	th.ask(2, 6, flease.Write)
	th.wantHeld("P2 has 4 and 6", b2, true)
	th.wire = nil
	for end := th.w.Now() + tmax + 10*time.Millisecond; th.w.Now() < end; th.pass(5 * time.Millisecond) {
		for _, kind := range acquisition {
			th.ask(2, 4, kind)
			th.ask(2, 6, kind)
		}
		th.lost(1, 5, 0)
		th.lost(1, 4, 0)
		th.lost(1, 6, 0)
	}
	th.wantHeld("P2 has renewed", b2, true)
	th.bring(stuck)
	th.back(5, 1)
	th.wantHeld("P1's ballot is older than what 5 had promised", b1, false)
}

// E5: an acceptor that restarts, cleanly or not, has an empty memory. It must not vote.
func restartIsSilent(th *theater) {
	a := th.win(1, 4, 5)
	th.p(5).crash(0)
	th.pass(0)
	b := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 5, kind)
		th.ask(2, 6, kind)
	}
	th.wantHeld("the owner has the votes of 4 and 5", a, true)
	th.wantHeld("5 has forgotten", b, false)
}

// E5: a planned restart serves at once, because it has forgotten nothing.
func plannedRestart(th *theater) {
	a := th.win(1, 4, 5)
	th.restartAtOnce(5)
	for _, id := range th.view.Members {
		th.lost(1, id, 0)
	}
	b := th.acquire(2, flease.Acquire{})
	th.ask(2, 5, flease.Read)
	if len(th.letters(2, 5, flease.Write)) > 0 {
		th.t.Error("one answer is no majority")
	}
	th.ask(2, 6, flease.Read)
	th.ask(2, 5, flease.Write)
	th.ask(2, 6, flease.Write)
	th.wantHeld("nothing was forgotten", b, false)
	if !th.p(5).serving {
		th.t.Error("a planned restart has no quarantine")
	}
	th.wantHeld("the owner is alive", a, true)
}

// restartAtOnce is a planned restart that takes no time, but for the ε in which the next
// life draws no ballots.
func (th *theater) restartAtOnce(id machine.NodeID) {
	p := th.p(id)
	p.host.Outcome = func(out flease.Report) {
		if s, ok := out.(flease.Snapshot); ok {
			p.leave(s, 0)
		}
	}
	p.restart()
	th.pass(0)
	th.pass(2 * eps)
}

// E5: nor has it forgotten a promise after which nothing was written: 1 has read 4 and 5, 2 has
// read 5 and 6 under a greater ballot.
func plannedRestartPromises(th *theater) {
	a := th.acquire(1, flease.Acquire{})
	th.ask(1, 4, flease.Read)
	th.ask(1, 5, flease.Read)
	th.pass(time.Millisecond)
	b := th.acquire(2, flease.Acquire{})
	th.ask(2, 5, flease.Read)
	th.ask(2, 6, flease.Read)
	th.restartAtOnce(5)
	th.ask(1, 4, flease.Write)
	th.ask(1, 5, flease.Write)
	th.ask(2, 5, flease.Write)
	th.ask(2, 6, flease.Write)
	th.wantHeld("5 has promised 2 to refuse 1", a, false)
	th.wantHeld("nobody is before 2", b, true)
}

// A peer that is shut down while it is silent has nothing to vouch for: the next life
// has a quarantine of its own.
func shutdownInQuarantine(th *theater) {
	a := th.win(1, 4, 5)
	th.p(5).crash(0)
	th.pass(0)
	th.p(5).restart()
	th.pass(0)
	for !th.p(5).host.Up() {
		th.pass(10 * time.Millisecond)
	}
	th.pass(2 * eps)
	b := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 5, kind)
		th.ask(2, 6, kind)
	}
	th.wantHeld("5 has forgotten", b, false)
	_ = a
}

// A clock that is set back and a planned shutdown while the peer is silent for it: the next
// life has a quarantine, and has not forgotten which tokens there were. It says that it
// serves when it can.
func tokensOutliveJumps(th *theater) {
	th.j.broken = true
	th.p(4).host.StepWall(time.Minute)
	th.p(4).host.Wake()
	far := flease.BallotOf(flease.TimeOf(th.p(4).host.Now().Wall), 0, 2)
	th.pass(wait + 10*time.Millisecond)
	if !th.p(4).serving {
		th.t.Error("the quarantine after a jump lasts for too long")
	}
	th.p(4).host.StepWall(-time.Minute)
	th.p(4).host.Wake()
	th.pass(time.Millisecond)
	th.p(4).restart()
	for th.pass(0); !th.p(4).host.Up(); {
		th.pass(10 * time.Millisecond)
	}
	th.pass(wait + 10*time.Millisecond)
	if th.p(4).serving {
		th.t.Error("it says that it serves, and could accept no ballot")
	}
	for end := th.w.Now() + time.Minute; !th.p(4).serving && th.w.Now() < end; {
		th.pass(10 * time.Millisecond)
	}
	th.bring(letter{2, 4, th.head(2), flease.Op{Kind: flease.Read, Ref: 7, Ballot: far, Name: "r"}})
	if n := th.pick(4, 2, 0, false); n != 0 || !th.p(4).serving {
		th.t.Errorf("it is silent for ever, or takes a ballot that it may have refused before the restart: %d answers", n)
	}
}

// F-2: the quarantine ends when both clocks have come far enough.
func bothClocks(th *theater) {
	p := th.p(5)
	for _, slow := range []string{"wall", "mono"} {
		p.crash(0)
		th.pass(0)
		if slow == "wall" {
			p.host.SlewWall(-2e-3)
		} else {
			p.host.SlewWall(0)
			p.host.Drift(-2e-3)
		}
		th.pass(wait + 10*time.Millisecond)
		p.host.Wake()
		th.pass(0)
		if p.serving {
			th.t.Errorf("the quarantine ends though the %s clock has not come far enough", slow)
		}
		th.pass(wait / 100)
		if !p.serving {
			th.t.Errorf("the quarantine lasts for too long (%s)", slow)
		}
		p.host.SlewWall(0)
		p.host.Drift(0)
	}
}

// E13: an owner that was restarted is another, and waits for its former self.
func formerSelf(th *theater) {
	a := th.win(1, 4, 5)
	token := a.hold.token
	th.p(1).crash(0)
	th.pass(0)
	// Its quarantine would hide it: the snapshot of a planned restart spares that.
	th.p(1).crash(0)
	th.p(1).restore = []*flease.Record{{}}
	th.pass(0)
	th.pass(2 * eps)
	b := th.acquire(1, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(1, 4, kind)
		th.ask(1, 5, kind)
	}
	if b.hold != nil {
		th.t.Errorf("it takes token %d for its own lease of an earlier life, with token %d", token, b.hold.token)
	}
}

// Section 3.5: a durable acceptor's answer is on its disk before.
func durableBeforeAnswer(th *theater) {
	for _, p := range th.peers[3:] {
		p.config.Durable = true
		p.crash(0)
	}
	th.pass(0)
	th.pass(wait + 10*time.Millisecond) // the first start has nothing on its disk
	a := th.acquire(1, flease.Acquire{})
	for _, kind := range acquisition {
		for _, id := range []uint32{4, 5} {
			th.deliver(1, th.view.Members[id-4], kind)
		}
		if kind == flease.Read {
			th.pass(5 * time.Millisecond) // the disks write
		}
		th.back(4, 1)
		th.back(5, 1)
	}
	// Everything that has come back by now is durable.
	th.p(5).host.Disk.Queue = nil
	th.p(5).crash(0)
	th.pass(5 * time.Millisecond)
	th.back(4, 1)
	th.pass(2 * eps)
	b := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.deliver(2, 5, kind)
		th.deliver(2, 6, kind)
		th.pass(5 * time.Millisecond)
		th.back(5, 2)
		th.back(6, 2)
	}
	if a.hold == nil {
		th.wantHeld("only 4 has the lease on its disk", b, true)
	}
}
