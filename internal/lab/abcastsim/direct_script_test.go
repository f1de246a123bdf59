package abcastsim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// directScripts are about the receivers of messages, and the time of the next try.
var directScripts = []script{
	{name: "at-first-to-the-leader", change: func(c *abcast.Config) { c.Direct = true }, play: func(th *theater) {
		th.broadcast(2, 1, 3)
		if !th.Has(submits, To(2)) {
			th.t.Error("nobody has led yet, and all should have the first message")
		}
		th.Settle()
		th.broadcast(1, 1, 3)
		if th.Has(submits, To(2)) || !th.Has(submits, To(1)) {
			th.t.Error("what is new should go to the leader alone")
		}
		if th.Has(Kind[fastct.Estimate]()) {
			th.t.Error("the leader alone should begin an instance for what it alone was sent")
		}
		th.Lose(submits)
		th.Settle()
		th.Wait(2 * retry)
		th.Pass(submits, To(2)) // it is not ordered yet, so that all should have it
		th.Lose(submits)
		th.Crash(3)
		for range 8 {
			th.Settle(To(3))
			th.Wait(retry)
		}
		th.delivered(2, 1, 2)
	}},
	{name: "another-leads", change: func(c *abcast.Config) { c.Direct, c.Consensus.Retry = true, time.Hour }, play: func(th *theater) {
		th.broadcast(2, 1, 3)
		th.Settle()
		th.broadcast(1, 1, 3)
		th.Crash(1)
		for _, id := range []machine.NodeID{2, 3} {
			th.Step(id, abcast.Suspect{Node: 1, Suspected: true})
		}
		th.Settle()
		th.Wait(retry) // and not an hour later
		th.Settle()
		th.delivered(2, 2, 3)
	}},
	{name: "the-leader-without-a-lease-needs-the-others", change: oneByOne, play: func(th *theater) {
		th.leaseless()
		th.broadcast(1, 1, 1)
		th.Settle()
		th.Wait(retry) // and not an hour later
		th.Settle()
		th.delivered(2, 1, 2)
	}},
	{name: "the-leader-without-a-lease-passes-on-what-it-alone-has", change: oneByOne, play: func(th *theater) {
		th.leaseless()
		th.broadcast(1, 1, 2)
		th.Settle()
		th.Wait(retry)
		th.Settle()
		th.delivered(2, 1, 2)
	}},
	{name: "who-hears-nothing-repeats-less-and-less-often", play: func(th *theater) {
		th.broadcast(1, 1, 3)
		submitted, estimated := 0, 0 // again
		for range 2 * 16 {
			th.Wire = nil
			th.Wait(retry / 2)
			if th.Has(submits, To(1)) {
				submitted++
			}
			if th.Has(Kind[fastct.Estimate](), To(1)) {
				estimated++
			}
		}
		if submitted != 5 || estimated != 5 { // after 1, 3, 7, 11 and 15
			th.t.Errorf("in 16 times Retry a message was sent again %d times and an estimate %d times, want 5", submitted, estimated)
		}
		for range 8 {
			th.Settle()
			th.Wait(retry)
		}
		th.delivered(1, 1, 2, 3)
	}},
	{name: "who-knows-the-decision-is-asked-at-once", change: oneByOne, play: func(th *theater) {
		th.broadcast(1, 1, 2)
		th.Settle(Kind[fastct.Decide]())
		th.Lose(Kind[fastct.Decide](), To(2)) // 3 is told, and 2 is not
		th.Crash(1)
		th.Settle()
		for _, id := range []machine.NodeID{2, 3} {
			th.Step(id, abcast.Suspect{Node: 1, Suspected: true})
		}
		th.Settle() // and not an hour later
		th.delivered(1, 2, 3)
	}},
}

// oneByOne has leases for one instance each, and no member that sends again within an hour.
func oneByOne(c *abcast.Config) {
	c.Direct, c.Consensus.Retry, c.Consensus.Lambda, c.Consensus.Fixed = true, time.Hour, 1, true
}

// leaseless lets all trust 1 to lead, and lets 3, which did not, die with the lease for the
// next instance.
func (th *theater) leaseless() {
	th.broadcast(2, 1, 2)
	th.Settle()
	for _, id := range []machine.NodeID{1, 2} {
		th.Step(3, abcast.Suspect{Node: id, Suspected: true})
	}
	th.broadcast(3, 1, 3)
	th.Pass(Kind[asynclease.Lease](), To(2))
	th.Crash(3)
	th.Wire = nil
}
