package fastctsim

import (
	"math"
	"testing"

	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

func TestScripts(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			n := sc.members
			if n == 0 {
				n = 3
			}
			th := newTheater(t, n, sc.cfg)
			sc.play(th)
			if err := th.judge.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// about chooses messages of an instance's round.
func about(round int64) Match {
	return func(e machine.Envelope) bool {
		switch b := e.Body.(type) {
		case fastct.Estimate:
			return b.Round == round
		case fastct.NewEstimate:
			return b.Round == round
		}
		return false
	}
}

// askFor chooses LEASEs for so many instances.
func askFor(n uint64) Match {
	return func(e machine.Envelope) bool {
		b, ok := e.Body.(asynclease.Lease)
		return ok && b.Interval.Last-b.Interval.First+1 == n
	}
}

// giveBackFrom chooses what gives a lease back from an instance on.
func giveBackFrom(cn uint64) Match {
	return func(e machine.Envelope) bool { b, ok := e.Body.(asynclease.Give); return ok && b.From == cn }
}

var decisions = Kind[fastct.Decide]()

// scripts are schedules in which one rule each is needed, with three members whose leases are
// for one instance unless they say otherwise. Members 1, 2, 3 propose a, b, c. Nothing is
// repeated unless time passes.
var scripts = []struct {
	name    string
	members int
	cfg     fastct.Config
	play    func(th *theater)
}{
	{name: "stable", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Settle()
		th.wantDecided(1, "a", 1, 2, 3)
		th.fast(1, 1)
		th.propose(2, "", 3, 2, 1)
		th.Settle()
		th.wantDecided(2, "a", 1, 2, 3)
		th.fast(2, 1) // rotate() begins anew
		th.wantLeases(1, 2)
		th.wantLeases(2, 0)
	}},
	{name: "ct96", cfg: fastct.Config{Plain: true}, play: func(th *theater) {
		th.propose(1, "", 2, 3)
		th.propose(1, "", 1)
		th.Settle()
		th.wantDecided(1, "", 1, 2, 3)
		th.wantLeases(1, 0)
	}},
	{name: "a-lease-covers-lambda", cfg: fastct.Config{Lambda: 10, Fixed: true}, play: func(th *theater) {
		for cn := range uint64(10) {
			th.propose(cn+1, "", 1, 2, 3)
			th.Settle()
			th.fast(cn+1, 1)
		}
		th.wantLeases(1, 1)
		th.propose(11, "", 1, 2, 3)
		th.Settle()
		th.fast(11, 1)
		th.wantLeases(1, 2)
	}},
	{name: "impossible-rounds", play: func(th *theater) {
		last := int64(math.MaxInt64) - 2 // coordinated by 3
		th.propose(1, "", 1)
		th.Lose(Kind[asynclease.Lease]())
		for _, b := range []any{fastct.Call{CN: 1, Round: last}, fastct.Estimate{CN: 1, Round: last + 1}, fastct.Call{CN: 1, Round: -2}} {
			th.Receive(machine.Envelope{From: 3, To: 1, Body: b})
		}
		th.Wait(2 * retry)
		th.Settle()
		th.propose(1, "", 2, 3)
		th.Settle()
		th.wantDecided(1, "a", 1, 2, 3)
		th.fast(1, 1)
	}},
	{name: "a-round-far-beyond", play: func(th *theater) {
		th.propose(1, "", 2, 3)
		// It is as far as rounds go, and behind it there is none to go on in.
		th.Receive(machine.Envelope{From: 1, To: 2, Body: fastct.Call{CN: 1, Round: math.MaxInt64 / 2}})
		th.Crash(1)
		th.suspect(2, 1)
		th.suspect(3, 1)
		for range 4 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.wantDecided(1, "", 2, 3)
	}},
	{name: "adopted-later-than-it-was-estimated", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Settle(decisions, Kind[fastct.NewEstimate]())
		th.Pass(Kind[fastct.NewEstimate](), To(2))
		th.Lose(Kind[fastct.NewEstimate](), To(3))
		th.Settle(decisions)
		th.wantDecided(1, "a", 1)
		th.Lose(decisions)
		th.Crash(1)
		th.suspect(2, 1) // in round 4, which it coordinates, and needs one estimate besides its own
		th.Lose(Kind[fastct.Counts]())
		for _, ts := range []int64{4, 1000, math.MinInt64} {
			th.Receive(machine.Envelope{From: 3, To: 2, Body: fastct.Estimate{CN: 1, Round: 4, TS: ts, Value: []byte("x")}})
		}
		th.suspect(3, 1)
		th.Settle()
		th.wantDecided(1, "a", 2, 3)
	}},
	{name: "a-late-acknowledgment-of-another-round", members: 5, play: func(th *theater) {
		says := func(from machine.NodeID, body any) { th.Receive(machine.Envelope{From: from, To: 1, Body: body}) }
		th.propose(1, "", 1)
		th.Settle(Kind[fastct.NewEstimate]())
		th.Lose(Kind[fastct.NewEstimate]()) // but 2 has got it, and its acknowledgment is late
		says(4, fastct.Nack{CN: 1, Round: 0})
		says(5, fastct.Nack{CN: 1, Round: 0})
		for id := machine.NodeID(3); id <= 5; id++ { // the first NORMAL round is 5, which 1 coordinates
			says(id, fastct.Estimate{CN: 1, Round: 5, TS: -1, Value: []byte("w")})
		}
		for th.Has(To(1), From(1)) {
			th.Pass(To(1), From(1))
		}
		if !th.Has(Kind[fastct.NewEstimate]()) {
			th.t.Fatal("member 1 imposes nothing in round 5")
		}
		says(3, fastct.Ack{CN: 1, Round: 5})
		says(2, fastct.Ack{CN: 1, Round: 0})
		th.undecided(1, 1) // with its own and that of 3, of five
		says(2, fastct.Nack{CN: 1, Round: 0})
		th.undecided(1, 1)
		says(4, fastct.Ack{CN: 1, Round: 5})
		if d, ok := th.decided[1][1]; !ok || d.Round != 5 {
			th.t.Errorf("member 1 has decided in round %d (%v) with three acknowledgments of five, want round 5", d.Round, ok)
		}
	}},
	{name: "rewritten-behind-an-estimate", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Settle(Kind[fastct.NewEstimate]())
		late := th.Lose(Kind[fastct.NewEstimate](), To(2)) // of member 1, in FAST mode
		th.Lose(Kind[fastct.NewEstimate]())
		th.Receive(machine.Envelope{From: 3, To: 2, Body: fastct.Call{CN: 1, Round: 8}}) // its ESTIMATE of round 8 leaves
		th.rewritten(2)
		th.propose(1, "", 2)
		th.Late(late)
		th.Receive(machine.Envelope{From: 1, To: 2, Body: fastct.NewEstimate{CN: 1, Round: 3, Value: []byte("late")}})
		for _, e := range th.Wire {
			if a, ok := e.Body.(fastct.Ack); ok && e.From == 2 {
				th.t.Errorf("B-1: member 2 acknowledges round %d after it has sent its estimate of round 8", a.Round)
			}
		}
	}},
	{name: "the-last-instances", cfg: fastct.Config{Lambda: 10, Fixed: true}, play: func(th *theater) {
		last := uint64(math.MaxUint64)
		th.propose(last-2, "", 1, 2, 3)
		th.Settle()
		th.fast(last-2, 1) // and it has a lease up to the last one
		th.suspect(2, 1)
		th.suspect(3, 1)
		th.Lose(Kind[fastct.Counts]())
		th.propose(last-1, "", 2, 3, 1)
		for range 3 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.wantDecided(last-1, "", 1, 2, 3)
		th.trust(2, 1)
		th.trust(3, 1)
		th.propose(last, "", 1, 2, 3)
		for range 3 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.wantDecided(last, "", 1, 2, 3)
	}},
	{name: "lambda-begins-anew", cfg: fastct.Config{Lambda: 20}, play: func(th *theater) {
		th.propose(1, "", 1)
		if !th.Has(askFor(10)) {
			th.t.Errorf("a leader should begin with half of the greatest: %+v", th.Wire)
		}
		th.Settle()
		th.propose(11, "", 1)
		if !th.Has(askFor(12)) {
			th.t.Errorf("a lease that was granted should make the next one longer: %+v", th.Wire)
		}
		th.Settle()
		th.suspect(2, 1)
		th.Settle()         // 2 leads
		th.suspect(1, 2, 3) // two suspicions each
		th.suspect(1, 2, 3)
		th.Settle() // 1 leads again
		th.propose(40, "", 1)
		if !th.Has(askFor(10)) {
			th.t.Errorf("a member that begins to lead should ask for half of the greatest, as at first: %+v", th.Wire)
		}
	}},
	{name: "known-leases-stay", cfg: fastct.Config{Lambda: 5, Fixed: true}, play: func(th *theater) {
		th.propose(7, "", 1)
		th.Settle() // 1 has [7,11]
		th.suspect(2, 1)
		th.Lose(Kind[fastct.Counts]())
		th.propose(2, "", 2)
		th.Settle() // 2 has [2,6]
		th.propose(3, "", 1)
		th.Settle() // refused, and so would be all up to 11
		th.wantLeases(1, 2)
		th.propose(8, "", 1, 3)
		th.Settle()
		th.wantLeases(1, 2)
		th.fast(8, 1)
	}},
	{name: "a-lease-is-known-from-the-floor-on", cfg: fastct.Config{Lambda: 10, Fixed: true}, play: func(th *theater) {
		th.propose(1, "", 1)
		for cn := range uint64(5) { // it hears the decisions of meanwhile, and forgets them
			th.judge.onProposal(fastct.Propose{CN: cn + 1})
			th.Step(1, fastct.Learn{CN: cn + 1})
		}
		th.Step(1, fastct.Trim{Below: 6})
		th.Settle() // now it has [1,10]
		th.suspect(2, 1)
		th.Settle(Kind[asynclease.Give]())
		if !th.Has(giveBackFrom(6)) || th.Has(giveBackFrom(1)) {
			th.t.Errorf("it should give back what is not decided yet, and no more: %+v", th.Wire)
		}
	}},
	{name: "a-lease-is-used-once", cfg: fastct.Config{Lambda: 10, Fixed: true}, play: func(th *theater) {
		th.propose(1, "", 1)
		th.Settle(Kind[fastct.NewEstimate]())
		th.Pass(Kind[fastct.NewEstimate](), To(3)) // 3 will adopt it when it takes part
		th.Lose(Kind[fastct.NewEstimate]())
		th.suspect(2, 1)
		th.Settle() // 1 hears that it is not trusted any more and gives back the unused rest
		th.propose(1, "", 2)
		th.Settle()
		th.propose(1, "", 3)
		th.Settle()
		th.propose(2, "", 2, 3, 1)
		th.Settle()
		th.wantDecided(1, "", 1, 2, 3)
		th.fast(2, 2) // it got what 1 gave back
	}},
	// 4.2.2 (1): 1 trusts itself and has the lease, and only a minority trusts it.
	{name: "deadlock-1-nobody-trusts-the-coordinator", play: func(th *theater) {
		th.suspect(3, 1)
		th.trust(3, 1)
		th.Lose(Kind[fastct.Counts]())
		th.propose(1, "", 1, 3) // 3 waits for 2, which is slow
		th.Settle(To(2))
		th.Pass(Kind[asynclease.Lease](), To(2))
		th.Settle(To(2))
		th.undecided(1, 1, 3)
		th.Settle(To(2), about(0))
		if !th.Has(From(3), To(2), about(1)) || th.Has(From(1), about(0), To(3)) {
			th.t.Error("3 should trust 2, and have heard of 1")
		}
		if !th.Has(From(1), Kind[fastct.Abort]()) {
			th.t.Error("1 still waits for acknowledgments, though 3 will not send one")
		}
		th.propose(1, "", 2)
		th.Settle()
		th.wantDecided(1, "", 1, 2, 3)
	}},
	// 4.2.2 (2): 3 trusts 2, which is correct and does not trust itself.
	{name: "deadlock-2-the-coordinator-does-not-trust-itself", play: func(th *theater) {
		th.suspect(3, 1)
		th.Lose(Kind[fastct.Counts]())
		th.Crash(1)
		th.propose(1, "", 2) // trusts 1
		th.suspect(2, 1)     // goes to NORMAL mode
		th.Lose(Kind[fastct.Counts]())
		th.propose(1, "", 3)           // trusts 2, and never suspects it
		th.Settle(Kind[fastct.Call]()) // which would do, too, and comes later
		th.wantDecided(1, "", 2, 3)
	}},
	// The same, with a coordinator that trusts itself and is refused the lease.
	{name: "deadlock-2-the-coordinator-has-no-lease", play: func(th *theater) {
		th.suspect(2, 1)
		th.suspect(3, 1)
		th.Lose(Kind[fastct.Counts]())
		th.propose(1, "", 1)
		th.Settle(Kind[fastct.NewEstimate]())
		th.Lose(Kind[fastct.NewEstimate]())
		th.Crash(1)
		th.propose(1, "", 3, 2)
		th.Settle(Kind[fastct.Call]()) // which would do, too, and comes later
		th.wantDecided(1, "", 2, 3)
	}},
	{name: "locked-in-round-0", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Settle(decisions, Kind[fastct.NewEstimate]())
		th.Pass(Kind[fastct.NewEstimate](), To(3))
		th.Lose(Kind[fastct.NewEstimate](), To(2))
		th.Settle(decisions)
		th.wantDecided(1, "a", 1)
		th.Lose(decisions)
		th.Crash(1)
		th.suspect(3, 1)
		th.suspect(2, 1)
		th.Settle()
		th.wantDecided(1, "a", 2, 3)
	}},
	{name: "halves-of-four", members: 4, play: func(th *theater) {
		th.propose(1, "", 1, 2, 3, 4)
		th.Settle(Kind[fastct.NewEstimate]())
		th.Lose(Kind[fastct.NewEstimate](), To(3, 4))
		th.Pass(To(2), Kind[fastct.NewEstimate]())
		th.Pass(From(2), To(1), Kind[fastct.Ack]())
		th.suspect(3, 1, 2)
		th.suspect(4, 1, 2)
		th.Settle(decisions, To(1, 2))
	}},
	{name: "an-estimate-counts-once", members: 5, play: func(th *theater) {
		th.propose(1, "", 1, 4, 5, 2)
		th.Settle(Kind[fastct.NewEstimate]())
		th.Lose(Kind[fastct.NewEstimate](), To(2, 3))
		th.Settle(decisions)
		th.wantDecided(1, "a", 1)
		th.Lose(decisions)
		th.propose(1, "", 3)
		th.Lose(From(3))
		th.suspect(2, 1)
		th.suspect(3, 1, 2) // on to round 7, which it coordinates
		th.suspect(2, 3)
		th.trust(2, 3)
		th.Lose(Kind[fastct.Counts]())
		th.Wait(2 * retry)
		th.Pass(Kind[fastct.Call](), To(2))
		once := th.Lose(From(2), To(3), about(7))
		th.Late(once)
		th.Late(once)
		th.Late(once)
		if th.Has(From(3), Kind[fastct.NewEstimate]()) {
			th.t.Error("3 imposes an estimate, and has that of one other member")
		}
	}},
	{name: "the-round-is-durable-before-its-estimate", play: func(th *theater) { // B-1
		th.propose(1, "", 1, 2, 3)
		th.Lose(Kind[asynclease.Lease]()) // 1 waits for its lease
		th.suspect(2, 1)
		th.suspect(3, 1)
		th.Lose(Kind[fastct.Counts]())
		th.Settle(about(4), From(2), To(1))
		th.Pass(Kind[fastct.Estimate](), about(4)) // 2 imposes b in round 4
		slow := th.Lose(Kind[fastct.NewEstimate](), about(4))
		th.suspect(3, 2)
		th.Lose(Kind[fastct.Counts]())
		th.Wait(2 * retry)
		th.Pass(Kind[fastct.Call](), From(3), To(1))
		third := th.Lose(Kind[fastct.Estimate](), From(1), about(5))
		th.restart(1)
		th.Wire = nil
		th.propose(1, "d", 1)
		th.Wire = nil
		th.Late(slow[:1])
		th.Settle(decisions)
		th.Late(third)
		th.Settle(decisions)
	}},
	{name: "a-round-has-one-estimate", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Lose(Kind[asynclease.Lease]())
		th.suspect(3, 1)
		th.Hold(2)
		th.suspect(2, 1)
		th.Lose(Kind[fastct.Counts]())
		th.Settle(To(1))
		th.Lose(To(1))
		th.Wait(2 * retry)
		th.Pass(Kind[fastct.Call](), From(2), To(1))
		th.Pass(about(4), From(1))
		if th.Has(Kind[fastct.NewEstimate]()) {
			th.t.Errorf("2 imposes an estimate in a round that is not durable: %+v", th.Wire)
		}
		th.Settle(Kind[fastct.NewEstimate]())
		th.restart(2)
		th.propose(1, "e", 2)
		th.suspect(2, 1)
		th.Settle()
		th.Wait(2 * retry)
		th.Settle()
	}},
	{name: "a-coordinator-goes-on-behind-its-round", play: func(th *theater) {
		th.propose(1, "", 2, 3)
		th.suspect(3, 1)
		th.suspect(2, 1)
		th.Lose(Kind[fastct.Counts]())
		th.Settle(about(4))
		th.Hold(2)
		th.Pass(Kind[fastct.Estimate](), about(4))
		th.SyncFirst(2, 1) // the estimate leaves, and that it was adopted is not durable
		if !th.Has(Kind[fastct.NewEstimate](), about(4)) {
			th.t.Error("2 should have imposed an estimate")
		}
		th.Lose(Kind[fastct.NewEstimate]())
		th.restart(2)
		th.propose(1, "e", 2)
		th.Wait(2 * retry)
		th.Settle()
	}},
	{name: "durable-before-it-is-acknowledged", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Settle(Kind[fastct.NewEstimate]())
		th.Hold(2)
		th.Lose(To(3), Kind[fastct.NewEstimate]())
		th.Settle()
		th.undecided(1, 1)
		th.Crash(1)
		th.restart(2)
		th.Wire = nil
		th.propose(1, "e", 2)
		th.suspect(2, 1)
		th.suspect(3, 1)
		th.Settle()
		th.Wait(2 * retry)
		th.Settle()
		th.wantDecided(1, "", 2, 3)
	}},
	{name: "durable-before-the-coordinator-counts-itself", play: func(th *theater) {
		th.propose(1, "", 1, 2)
		th.Lose(To(3))
		th.Settle(Kind[asynclease.Ack]())
		th.Hold(1)
		th.Settle()
		th.undecided(1, 1)
		th.Crash(2)
		th.restart(1)
		th.Wire = nil
		th.propose(1, "", 3)
		th.propose(1, "e", 1)
		th.suspect(1, 2)
		th.suspect(3, 2)
		for range 4 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.wantDecided(1, "", 1, 3)
	}},
	{name: "the-decision-overtakes-the-estimate", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Settle(To(3))
		th.wantDecided(1, "a", 1, 2)
		th.Pass(To(3), decisions)
		th.undecided(1, 3)
		th.Pass(To(3), Kind[fastct.NewEstimate]())
		th.wantDecided(1, "a", 3)
	}},
	{name: "the-decision-comes-first-of-all", play: func(th *theater) {
		th.propose(1, "", 1, 2)
		th.Settle(To(3))
		th.Lose(To(3), Kind[fastct.NewEstimate]())
		th.Settle()
		th.propose(1, "", 3)
		th.Settle()
		th.wantDecided(1, "a", 3)
	}},
	{name: "one-member-fills-no-other-s-buffer", play: func(th *theater) {
		for round := range int64(100) {
			th.Receive(machine.Envelope{From: 2, To: 3, Body: fastct.Call{CN: 1, Round: 4 + 3*round}})
		}
		th.propose(1, "", 1, 2)
		th.Settle()
		th.wantDecided(1, "a", 3) // it was told that round 0 decides, and had kept what 1 has imposed there
	}},
	{name: "who-missed-the-decision-hears-of-it", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Settle(decisions)
		th.Lose(decisions)
		th.Wait(2 * retry)
		th.Settle()
		th.wantDecided(1, "a", 1, 2, 3)
	}},
	{name: "who-has-not-adopted-acknowledges-nothing", play: func(th *theater) {
		th.propose(1, "", 1, 2, 3)
		th.Lose(Kind[asynclease.Lease]())
		th.suspect(3, 1)
		th.suspect(2, 1)
		th.Settle(about(4))
		th.Lose(about(4), From(3))
		th.restart(3) // in round 4, for which it has given its estimate
		th.Wait(2 * retry)
		th.Pass(Kind[fastct.Call](), To(1))
		th.Pass(about(4), From(1))
		th.Lose(Kind[fastct.NewEstimate](), To(3))
		th.Settle(decisions)
		th.Pass(decisions, To(3)) // it is decided, and 3 does not know what
		th.Crash(2)
		th.propose(1, "d", 3)
		th.Wait(2 * retry)
		if th.Has(From(3), Kind[fastct.Ack]()) {
			th.t.Errorf("3 acknowledges an estimate that it has never seen: %+v", th.Wire)
		}
		th.Settle()
		th.wantDecided(1, "", 1, 3)
	}},
	{name: "decisions-survive", play: func(th *theater) {
		th.propose(1, "", 1, 2)
		th.Settle(To(3))
		th.Lose(To(3))
		th.propose(1, "", 3)
		th.Wait(2 * retry)
		th.Settle()
		th.wantDecided(1, "a", 3) // it was told, and has acknowledged nothing
		for _, id := range th.ids {
			th.restart(id)
			if v, ok := th.members[id].Decision(1); !ok || string(v) != "a" {
				th.t.Errorf("member %d has decided a before its crash and %q (%v) after it", id, v, ok)
			}
		}
	}},
}
