package fleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// toView decides on the next view, and tells the named peers.
func (th *theater) toView(members []machine.NodeID, told ...machine.NodeID) flease.View {
	v := flease.View{Epoch: th.view.Epoch + 1, Members: members, Replicas: len(members)}
	th.next = &v
	for _, id := range told {
		th.p(id).host.Step(flease.ChangeView{View: v})
		th.pass(0)
	}
	return v
}

// exchange lets all news about views among some peers arrive, for a few rounds.
func (th *theater) exchange(ids ...machine.NodeID) {
	for range 4 {
		for _, a := range ids {
			for _, b := range ids {
				th.pick(a, b, 0, true)
			}
		}
	}
}

// F-1: from {4,5,6} to {1,2}, without a common member. The lease lives on in the old cell while
// the new one has no idea of it.
func disjointViews(th *theater) {
	a := th.win(3, 4, 5)
	th.wire = nil
	th.toView([]machine.NodeID{1, 2}, 1, 2, 4, 5)
	th.exchange(1, 2, 4, 5)
	th.pass(time.Millisecond)
	b := th.acquire(1, flease.Acquire{})
	th.exchange(1, 2)
	th.wantHeld("the view before has just closed", a, true)
	th.wantHeld("its leases have not run out", b, false)
	th.pass(wait + 10*time.Millisecond)
	for range 20 {
		th.pass(tmax / 32)
		th.exchange(1, 2)
	}
	th.wantHeld("the new view is active", b, true)
}

// F-1: only a minority of the old cell has closed. The rest may go on for ever.
func minorityCloses(th *theater) {
	a := th.win(3, 4, 5)
	th.wire = nil
	th.toView([]machine.NodeID{1, 2}, 1, 2, 6)
	b := th.acquire(1, flease.Acquire{})
	for end := th.w.Now() + 2*wait; th.w.Now() < end; th.pass(100 * time.Millisecond) {
		for _, kind := range acquisition {
			th.ask(3, 4, kind)
			th.ask(3, 5, kind)
		}
		th.exchange(1, 2, 6)
	}
	th.wantHeld("4 and 5 have not heard of a new view", a, true)
	th.wantHeld("its view is not complete", b, false)
}

// F-1: a peer that has missed a view cannot tell when its leases are over. 3 and 6 are in view
// 1, and view 2 is active at others. 3 and 6 are told of view 3; a majority of view 1 has closed
// for it.
func viewMissed(th *theater) {
	th.toView([]machine.NodeID{1, 2}, 1, 2, 4, 5)
	th.exchange(1, 2, 4, 5)
	th.pass(wait + 10*time.Millisecond)
	th.exchange(1, 2, 4, 5)
	a := th.acquire(1, flease.Acquire{})
	th.exchange(1, 2)
	th.wantHeld("view 2 is active", a, true)
	th.wire = nil
	gaps := 0
	for _, id := range []machine.NodeID{3, 6} {
		th.p(id).host.Outcome = func(out flease.Report) {
			if a, ok := out.(flease.Alarm); ok && a.Kind == flease.Gap {
				gaps++
			}
		}
	}
	th.toView([]machine.NodeID{3, 6}, 3, 4, 5, 6)
	if gaps != 2 {
		th.t.Errorf("%d of 3 and 6 raise an alarm for a view that does not follow on theirs", gaps)
	}
	b := th.acquire(3, flease.Acquire{})
	for end := th.w.Now() + 2*wait; th.w.Now() < end; th.pass(100 * time.Millisecond) {
		th.exchange(1, 2)
		th.exchange(3, 4, 5, 6)
	}
	th.wantHeld("nobody of its cell has closed", a, true)
	th.wantHeld("view 2 is not over", b, false)
}

// F-2: W between two views ends when both clocks have come far enough, as one at a start does.
func viewsByBothClocks(th *theater) {
	th.p(1).host.SlewWall(-2e-3)
	th.p(2).host.Drift(-2e-3)
	active := 0
	for _, id := range []machine.NodeID{1, 2} {
		th.p(id).host.Outcome = func(out flease.Report) {
			if _, ok := out.(flease.Active); ok {
				active++
			}
		}
	}
	th.toView([]machine.NodeID{1, 2}, 1, 2, 4, 5)
	th.exchange(1, 2, 4, 5)
	look := func() {
		for _, id := range []machine.NodeID{1, 2} {
			th.p(id).host.Wake()
		}
		th.pass(0)
	}
	th.pass(wait + 10*time.Millisecond)
	if look(); active != 0 {
		th.t.Errorf("%d of 1, whose synchronized clock is slow, and 2, whose monotonic clock is, vote already", active)
	}
	th.pass(wait / 100)
	if look(); active != 2 {
		th.t.Errorf("%d of 1 and 2 vote", active)
	}
}

// An acceptor that has closed does not vote in the old cell any more.
func closedMeansClosed(th *theater) {
	v := th.toView([]machine.NodeID{1, 2}, 1, 2, 4, 5)
	th.exchange(1, 2, 4, 5)
	a := th.acquire(3, flease.Acquire{}) // has not heard
	for _, kind := range acquisition {
		th.ask(3, 4, kind)
		th.ask(3, 5, kind)
		th.ask(3, 6, kind)
	}
	th.wantHeld("4 and 5 have closed", a, false)
	th.wire = nil
	th.pass(wait + 10*time.Millisecond)
	th.exchange(1, 2, 4, 5)
	if th.view.Epoch != v.Epoch {
		th.t.Fatal("the new view is not active")
	}
	b := th.acquire(3, flease.Acquire{})
	for range 3 {
		for _, kind := range acquisition {
			th.ask(3, 4, kind)
			th.ask(3, 5, kind)
			th.ask(3, 6, kind)
		}
	}
	th.wantHeld("4 and 5 are in the old view for good", b, false)
}

// Nor when a view comes under which it has the cell again: a peer that asks under the view
// before has missed one between, in which the lease may be another's.
func closedForGood(th *theater) {
	th.toView([]machine.NodeID{1, 2}, 1, 2, 4, 5)
	th.exchange(1, 2, 4, 5)
	v := flease.View{Epoch: 3, Members: th.view.Members, Replicas: 3}
	for _, id := range []machine.NodeID{4, 5} {
		th.bring(letter{from: 1, to: id, head: flease.Batch{Incarnation: 1, Epoch: 2, View: &flease.ViewNews{View: v, Active: true}}})
	}
	a := th.acquire(3, flease.Acquire{}) // has heard of neither
	for range 10 {
		for _, kind := range acquisition {
			th.ask(3, 4, kind)
			th.ask(3, 5, kind)
		}
		th.pass(wait / 8)
	}
	th.wantHeld("4 and 5 have closed", a, false)
}

// A peer that was started with a view that never was active, by mistake, says that it is. No
// peer forgets a lease for that.
func toldTooSoon(th *theater) {
	a := th.win(3, 4, 5)
	th.wire = nil
	v := flease.View{Epoch: 2, Members: []machine.NodeID{1, 2, 6}, Replicas: 3}
	head := th.head(6)
	head.View = &flease.ViewNews{View: v, Active: true}
	for _, id := range []machine.NodeID{1, 2} {
		th.bring(letter{from: 6, to: id, head: head})
	}
	b := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 1, kind)
	}
	th.wantHeld("its lease has not run out", a, true)
	th.wantHeld("1 and 2 wait", b, false)
}

// Cells that stay as they are go on through a change of the membership.
func unchangedCells(th *theater) {
	p := th.p(1)
	v := flease.View{Epoch: 2, Members: []machine.NodeID{4, 5, 6}, Replicas: 3}
	for _, id := range []machine.NodeID{1, 4, 5, 6} {
		th.p(id).host.Step(flease.ChangeView{View: v})
		th.pass(0)
	}
	th.settle()
	a := th.win(1, 4, 5)
	th.wantHeld("nothing has changed for it", a, true)
	_ = p
}

// A peer with other members under the same epoch is not listened to, nor with others under
// the next.
func disagreement(th *theater) {
	th.j.broken = true // it is an alarm for something
	head := th.head(2)
	head.Digest++
	k := flease.BallotOf(flease.TimeOf(th.p(4).host.Now().Wall), 0, 2)
	th.bring(letter{2, 4, head, flease.Op{Kind: flease.Read, Ref: 7, Ballot: k, Name: "r"}})
	if n := th.pick(4, 2, 0, false); n != 0 {
		th.t.Errorf("a peer of another membership gets %d answers", n)
	}
	th.toView([]machine.NodeID{3, 4, 5, 6}, 4)
	th.wire = nil
	head.Epoch++
	th.bring(letter{2, 4, head, flease.Op{Kind: flease.Read, Ref: 7, Ballot: k, Name: "r"}})
	if n := th.pick(4, 2, 0, false); n != 0 {
		th.t.Errorf("a peer of another next membership gets %d answers", n)
	}
}

// A peer whose list has a member elsewhere, under the same epoch and index, is not listened to:
// it may take another process for that member, and their majorities be disjoint.
func otherPlaces(th *theater) {
	th.view.Places = 1
	th.p(2).crash(0)
	th.pass(0)
	th.view.Places = 0
	th.j.broken = true // it is an alarm for something
	th.pass(wait + 10*time.Millisecond)
	b := th.acquire(2, flease.Acquire{})
	for _, kind := range acquisition {
		th.ask(2, 4, kind)
		th.ask(2, 5, kind)
	}
	th.wantHeld("4 and 5 have other places", b, false)
}
