package abcastsim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// change lets a client of its own change the members at one of them.
func (th *theater) change(client byte, seq uint64, at machine.NodeID, c abcast.Change) {
	m := abcast.Message{Client: th.client(client, at), Seq: seq, Payload: c.Payload(), Change: true}
	th.judge.onBroadcast(m)
	th.Step(at, abcast.Broadcast{Message: m})
}

func add(ids ...machine.NodeID) (c abcast.Change) {
	for _, id := range ids {
		c.Add = append(c.Add, abcast.Member{ID: id})
	}
	return c
}

// beat lets heartbeats, repetitions and their consequences go on for a while.
func (th *theater) beat(but ...Match) {
	for range 8 {
		th.Settle(but...)
		th.Wait(retry)
	}
	th.Settle(but...)
}

// alive has members tell each other how far they are; none is suspected for silence.
func alive(c *abcast.Config) {
	c.Consensus.Heartbeat, c.Consensus.Timeout = retry, time.Hour
}

// about chooses messages of consensus on an instance of the founders.
func about(cn uint64) Match {
	return func(e machine.Envelope) bool {
		switch b := e.Body.(type) {
		case fastct.Ack:
			return b.CN == cn
		case fastct.Decide:
			return b.CN == cn
		}
		return false
	}
}

// later chooses messages of consensus in epochs behind the first.
func later[T any](e machine.Envelope) bool {
	in, _ := e.Body.(abcast.In)
	_, ok := in.Body.(T)
	return ok
}

// groupScripts are schedules around changes of the members.
var groupScripts = []script{
	{name: "one-comes", change: alive, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.beat()
		th.start(4, nil)
		th.change(9, 1, 2, add(4))
		th.beat()
		th.broadcast(1, 2, 4)
		th.broadcast(2, 1, 3)
		th.beat()
		th.delivered(4, 1, 2, 3, 4)
		th.restart(4)
		th.broadcast(1, 3, 4)
		th.beat()
		th.delivered(5, 1, 2, 3, 4)
	}},
	{name: "who-comes-is-told-by-one-with-less-forgotten", change: alive, play: func(th *theater) {
		th.slow = true
		for seq := range uint64(3) {
			th.broadcast(1, seq+1, 1)
			th.Settle()
		}
		th.trim(3, 1)
		th.start(4, nil)
		th.change(9, 1, 2, add(4))
		others := func(e machine.Envelope) bool { return e.To == 4 && e.From != 1 }
		th.beat(others)
		th.Lose(others)
		if th.lacks[4] != 3 {
			th.t.Errorf("member 4 says to lack what led to %d, want 3", th.lacks[4])
		}
		th.Crash(1) // for good, and its owner with it
		for range 4 {
			th.beat()
		}
		th.delivered(4, 2, 3, 4)
	}},
	{name: "the-leader-goes", change: alive, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.beat()
		th.change(9, 1, 3, abcast.Change{Remove: []machine.NodeID{1}})
		th.beat()
		if th.established[1] == 0 {
			th.t.Error("member 1 is not told that it may go")
		}
		th.broadcast(1, 2, 1)
		if th.refused[1] != abcast.ErrOutside {
			th.t.Errorf("one that was removed broadcasts: got %v, want ErrOutside", th.refused[1])
		}
		th.Crash(1)
		th.broadcast(1, 2, 2)
		th.beat()
		th.delivered(3, 2, 3)
	}},
	{name: "all-are-replaced", change: alive, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.beat()
		c := add(4, 5)
		c.Remove = []machine.NodeID{1, 2, 3}
		th.start(4, nil)
		th.start(5, nil)
		th.change(9, 1, 1, c)
		th.beat()
		for id := machine.NodeID(1); id <= 3; id++ {
			th.Crash(id)
		}
		th.restart(4) // it still has its knowledge from others
		th.restart(5)
		th.broadcast(1, 1, 4)
		th.broadcast(1, 2, 4)
		th.beat()
		th.delivered(3, 4, 5)
	}},
	{name: "what-was-decided-behind-a-change-is-void", change: func(c *abcast.Config) { alive(c); c.Pipeline = 2 }, play: func(th *theater) {
		th.start(4, nil)
		th.change(9, 1, 1, add(4))
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
		th.delivered(4, 1, 2, 3, 4)
	}},
	{name: "an-old-majority-does-not-count", change: func(c *abcast.Config) { alive(c); c.Pipeline = 2 }, play: func(th *theater) {
		th.start(4, nil)
		th.start(5, nil)
		th.change(9, 1, 1, add(4, 5))
		th.broadcast(1, 1, 1)
		th.Lose(submits)
		th.Settle(Kind[fastct.Ack]())
		late := th.Lose(Kind[fastct.Ack](), about(2))
		th.Pass(Kind[fastct.Ack]())
		imposed := Match(later[fastct.NewEstimate])
		th.beat(imposed, submits)
		th.Lose(imposed)
		th.Late(late) // 2 and 3 have acknowledged the first instance of five members when they were three
		th.broadcast(2, 1, 2)
		for id := machine.NodeID(2); id <= 5; id++ {
			th.Step(id, abcast.Suspect{Node: 1, Suspected: true})
		}
		th.Lose(To(1))
		th.beat(From(1), To(1))
		th.Lose(To(1))
		th.beat()
		th.delivered(3, 1, 2, 3, 4, 5)
	}},
	{name: "who-goes-is-needed-until-a-majority-knows", change: func(c *abcast.Config) {
		alive(c)
		c.Consensus.Members = []machine.NodeID{1, 2, 3, 4}
	}, play: func(th *theater) {
		th.change(9, 1, 1, abcast.Change{Remove: []machine.NodeID{4}})
		th.Settle(Kind[fastct.Ack]())
		th.Pass(Kind[fastct.Ack]())
		apart := To(2, 3)
		th.beat(apart)
		if th.established[4] != 0 {
			th.t.Error("member 4 may go, and of the three that stay only one knows that")
		}
		th.Lose(apart)
		th.Crash(1)
		th.beat() // 4 tells them
		th.delivered(1, 2, 3)
		if th.established[4] == 0 {
			th.t.Error("member 4 is not told that it may go")
		}
		th.Crash(4)
		th.broadcast(1, 1, 2)
		th.Step(2, abcast.Suspect{Node: 1, Suspected: true})
		th.Step(3, abcast.Suspect{Node: 1, Suspected: true})
		th.beat()
		th.delivered(2, 2, 3)
	}},
	{name: "who-knows-has-it-on-disk", change: alive, play: func(th *theater) {
		th.change(9, 1, 1, abcast.Change{Remove: []machine.NodeID{3}})
		th.Settle(Kind[fastct.Ack]())
		th.Hold(1)
		th.Hold(2)
		th.beat()
		th.delivered(1, 1, 2, 3)
		if th.established[3] != 0 {
			th.t.Error("member 3 may go, and nobody else has the change on disk")
		}
		th.Sync(1)
		th.Sync(2)
		th.beat()
		if th.established[3] == 0 {
			th.t.Error("member 3 is not told that it may go")
		}
	}},
	{name: "ids-do-not-return", change: alive, play: func(th *theater) {
		th.change(9, 1, 1, abcast.Change{Remove: []machine.NodeID{3}})
		th.change(9, 2, 1, add(3))
		th.beat()
		th.delivered(2, 1, 2)
		if g := th.members[2].Group(); g.Has(3) || !g.Gone(3) || len(g.Members) != 2 {
			th.t.Errorf("the group is %+v, and should be 1 and 2, without 3 for good", g)
		}
	}},
	{name: "who-was-away-hears-that-it-was-removed", change: alive, play: func(th *theater) {
		th.change(9, 1, 1, abcast.Change{Remove: []machine.NodeID{3}})
		th.Settle(To(3))
		th.Lose(To(3))
		th.beat()
		th.delivered(1, 1, 2, 3)
		if !th.members[3].Group().Gone(3) || th.established[3] == 0 {
			th.t.Errorf("member 3 takes itself for one of %+v", th.members[3].Group())
		}
	}},
	{name: "a-late-message-of-an-old-epoch", change: alive, play: func(th *theater) {
		th.start(4, nil)
		th.broadcast(1, 1, 1)
		th.beat()
		th.change(9, 1, 1, add(4))
		th.Settle(Kind[fastct.Ack]())
		late := th.Lose(Kind[fastct.Ack](), From(3))
		th.beat()
		th.Late(late)
		th.broadcast(1, 2, 1)
		th.beat()
		th.delivered(3, 1, 2, 3, 4)
	}},
	{name: "trimmed-behind-a-change", change: alive, play: func(th *theater) {
		th.start(4, nil)
		th.broadcast(1, 1, 1)
		th.change(9, 1, 1, add(4))
		th.broadcast(1, 2, 1)
		th.beat(To(4))
		th.Lose(To(4))
		th.trim(2, 1, 2, 3)
		th.beat() // 4 is given the state
		th.broadcast(1, 3, 4)
		th.beat()
		th.delivered(4, 1, 2, 3, 4)
		th.restart(1)
		th.restart(4)
		th.broadcast(1, 4, 1)
		th.beat()
		th.delivered(5, 1, 2, 3, 4)
	}},
	{name: "an-epoch-that-is-over-within-a-step", change: alive, play: func(th *theater) {
		th.start(4, nil)
		th.change(9, 1, 1, add(4))
		th.beat(To(3))
		th.Lose(To(3))
		th.change(9, 2, 1, abcast.Change{Remove: []machine.NodeID{4}})
		th.Settle(To(3))
		// 3 hears a decision of the second epoch before it hears that there is one.
		th.Pass(To(3), later[fastct.NewEstimate])
		th.Pass(To(3), later[fastct.Decide])
		th.Lose(To(3))
		th.delivered(0, 3)
		th.Pass(From(3), Kind[abcast.Fetch]())
		th.Pass(To(3), Kind[abcast.Decisions]())
		th.delivered(2, 3)
		th.restart(3)
		th.delivered(2, 3)
	}},
	{name: "two-that-do-not-know-each-other", change: alive, play: func(th *theater) {
		th.start(5, nil)
		th.change(9, 1, 1, abcast.Change{Add: add(5).Add, Remove: []machine.NodeID{3}})
		th.beat(To(3))
		th.delivered(1, 1, 2, 5)
		th.delivered(0, 3)
		th.Lose(To(3))
		th.Late([]machine.Envelope{{From: 5, To: 3, Body: abcast.Status{Delivered: 1, Began: 2}}})
		th.Settle(Kind[abcast.Fetch]()) // it has an end
		th.beat()
		th.delivered(1, 3)
	}},
}
