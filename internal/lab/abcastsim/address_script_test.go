package abcastsim

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// at is a Change that names where a member is.
func at(id machine.NodeID, address string) abcast.Change {
	return abcast.Change{Add: []abcast.Member{{ID: id, Address: address}}}
}

// addressScripts are schedules of founders that have the same addresses spelled in different
// ways in their configurations.
var addressScripts = []script{
	{name: "an-address-that-one-member-has-already", change: func(c *abcast.Config) { alive(c); c.Pipeline = 2 }, addresses: addresses{
		1: {1: "localhost:1"},
		2: {1: "127.0.0.1:1"},
		3: {1: "127.0.0.1:1"},
	}, play: func(th *theater) {
		th.change(9, 1, 1, at(1, "localhost:1"))
		th.broadcast(1, 1, 1) // in the second instance, beside the change
		th.Lose(submits)
		th.Settle(Kind[fastct.Ack](), Kind[fastct.Decide]())
		th.Pass(Kind[fastct.Ack](), about(2))
		th.Lose(Kind[fastct.Decide](), about(2)) // only 1 knows the decision
		th.Pass(Kind[fastct.Ack](), about(1))
		th.Pass(Kind[fastct.Decide](), about(1), To(2, 3))
		th.broadcast(2, 1, 2)
		th.broadcast(3, 1, 3)
		th.Step(2, abcast.Suspect{Node: 1, Suspected: true})
		th.Step(3, abcast.Suspect{Node: 1, Suspected: true})
		th.beat(From(1), To(1))
		th.Lose(To(1))
		th.beat()
		th.delivered(4, 1, 2, 3)
	}},
	{name: "an-address-where-one-member-has-another", change: alive, addresses: addresses{
		1: {2: "localhost:2", 3: "127.0.0.1:3"},
		2: {2: "127.0.0.1:2", 3: "localhost:3"},
		3: {2: "127.0.0.1:2", 3: "127.0.0.1:3"},
	}, play: func(th *theater) {
		th.start(4, nil)
		th.change(9, 1, 1, at(4, "127.0.0.1:2"))
		th.beat()
		th.change(9, 2, 1, at(5, "127.0.0.1:2")) // where all know 4 to be
		th.change(9, 3, 1, at(4, "127.0.0.1:2"))
		th.beat()
		th.delivered(3, 1, 2, 3, 4)
		for id := machine.NodeID(1); id <= 4; id++ {
			if g := th.members[id].Group(); g.First != 2 || !slices.Equal(g.IDs(), []machine.NodeID{1, 2, 3, 4}) {
				th.t.Errorf("member %d has the group %+v, want 1 to 4 from instance 2 on", id, g)
			}
		}
		th.change(9, 4, 1, at(3, "127.0.0.1:3"))
		th.beat()
		th.change(9, 5, 1, at(5, "127.0.0.1:3")) // where all know 3 to be by now
		th.beat()
		th.delivered(5, 1, 2, 3, 4)
		for id := machine.NodeID(1); id <= 4; id++ {
			if g := th.members[id].Group(); !slices.Equal(g.IDs(), []machine.NodeID{1, 2, 3, 4}) {
				th.t.Errorf("member %d has the group %+v, want 1 to 4", id, g)
			}
		}
	}},
	{name: "a-state-with-anothers-addresses", change: alive, addresses: addresses{
		1: {1: "localhost:1", 2: "two:2", 3: "three:3"},
		2: {1: "one:1", 2: "localhost:2", 3: "three:3"},
		3: {1: "one:1", 2: "two:2", 3: "localhost:3"},
	}, play: func(th *theater) {
		is := func(when string, want ...string) {
			th.t.Helper()
			var got []string
			for _, m := range th.members[3].Group().Members {
				got = append(got, m.Address)
			}
			if !slices.Equal(got, want) {
				th.t.Errorf("%s: member 3 has its members at %q, want %q", when, got, want)
			}
		}
		for seq := range uint64(3) {
			th.broadcast(1, seq+1, 1)
			th.Settle(To(3))
			th.Lose(To(3))
		}
		th.trim(3, 1, 2)
		th.beat()
		th.delivered(3, 3)
		is("given a state", "one:1", "two:2", "localhost:3")
		th.restart(3)
		is("after a restart", "one:1", "two:2", "localhost:3")
		th.change(9, 1, 2, at(1, "moved:1"))
		th.Settle(To(3))
		th.Lose(To(3))
		th.broadcast(1, 4, 2)
		th.Settle(To(3))
		th.Lose(To(3))
		th.trim(5, 1, 2)
		th.beat()
		th.delivered(5, 1, 2, 3)
		is("given a state with a change in it", "moved:1", "two:2", "localhost:3")
	}},
}
