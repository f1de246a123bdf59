package abcastsim

import (
	"github.com/tenure-lease/tenure/internal/core/abcast"
	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// one remembers one client alone, and two two.
func one(c *abcast.Config) { c.Clients = 1 }
func two(c *abcast.Config) { c.Clients = 2 }

// forgetScripts are about clients that are forgotten.
var forgetScripts = []script{
	{name: "who-was-forgotten-is-told", change: one, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.Settle()
		th.broadcast(1, 2, 3)
		th.Lose(From(3))
		th.broadcast(2, 1, 1) // client 1 is forgotten
		th.Settle()
		th.delivered(2, 1, 2, 3)
		if th.refused[3] != abcast.ErrSequence {
			th.t.Errorf("what can never be ordered: got %v, want ErrSequence", th.refused[3])
		}
	}},
	{name: "who-was-forgotten-does-not-begin-anew", change: one, play: func(th *theater) {
		th.broadcast(1, 1, 3)
		th.Settle(To(3)) // 3 does not hear that it is ordered
		th.broadcast(2, 1, 1)
		th.Settle(To(3))
		th.delivered(2, 1, 2)
		th.Wait(2 * retry) // 3 sends it again
		for range 4 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(2, 1, 2, 3)
	}},
	{name: "what-comes-late-of-who-was-forgotten", change: one, play: func(th *theater) {
		th.broadcast(1, 1, 3)
		late := th.Lose(submits, To(1))
		th.Settle()
		th.Wait(2 * retry)
		th.Settle()
		th.broadcast(2, 1, 1)
		th.Settle()
		th.Late(late)
		th.Settle()
		th.delivered(2, 1, 2, 3)
		th.broadcast(1, 1, 2)
		if th.refused[2] != abcast.ErrSequence {
			th.t.Errorf("number 1 of a forgotten client: got %v, want ErrSequence", th.refused[2])
		}
	}},
	{name: "the-horizon-is-in-the-state", change: func(c *abcast.Config) { alive(c); one(c) }, play: func(th *theater) {
		late := Match(func(e machine.Envelope) bool { return submits(e) && To(1)(e) })
		th.broadcast(1, 1, 3)
		submitted := th.Lose(late)
		th.beat()
		th.broadcast(2, 1, 1)
		th.beat(To(3))
		th.Lose(To(3))
		th.trim(2, 1, 2)
		th.beat() // 3 is given the state
		for _, id := range []machine.NodeID{1, 2, 3} {
			th.restart(id)
		}
		for _, id := range []machine.NodeID{1, 2, 3} {
			for _, e := range submitted {
				e.To = id
				th.Late([]machine.Envelope{e})
			}
		}
		th.beat()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "who-is-new-is-no-one-forgotten", change: one, play: func(th *theater) {
		for client := range byte(5) { // each forgets the one before
			th.broadcast(client, 1, 1)
			th.broadcast(client, 2, 1)
			th.Settle()
		}
		th.delivered(10, 1, 2, 3)
	}},
	{name: "an-id-from-nowhere", change: one, play: func(th *theater) {
		m := abcast.Message{Client: machine.ID{7, 15: 1}, Seq: 1, Payload: []byte("x")}
		th.Step(1, abcast.Broadcast{Message: m})
		if th.refused[1] != abcast.ErrClient || len(th.Wire) > 0 {
			th.t.Errorf("an ID that was not made by NewClient: got %v, want ErrClient", th.refused[1])
		}
		th.Late([]machine.Envelope{{From: 3, To: 1, Body: abcast.Submit{Messages: []abcast.Message{m}}}})
		th.broadcast(1, 1, 1)
		th.Settle()
		th.delivered(1, 1, 2, 3)
	}},
	{name: "who-is-made-at-a-member-that-is-further", play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.Settle(To(3))
		th.client(2, 1)
		th.broadcast(2, 1, 3)
		if th.refused[3] != abcast.ErrClient {
			th.t.Errorf("an ID from beyond what was delivered: got %v, want ErrClient", th.refused[3])
		}
		th.Settle()
		th.broadcast(2, 1, 3)
		th.Settle()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "forgotten-within-a-batch", change: one, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.broadcast(1, 2, 1)
		th.broadcast(2, 1, 1) // one instance orders the two, and forgets the first of them
		th.Settle()
		th.delivered(3, 1, 2, 3)
		if th.refused[1] != nil {
			th.t.Errorf("what was ordered is refused: %v", th.refused[1])
		}
	}},
	{name: "ordered-last", change: two, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.broadcast(2, 1, 1)
		th.broadcast(1, 2, 1)
		th.broadcast(3, 1, 1) // client 2 is forgotten, which came second and was ordered the longest ago
		th.Settle()
		th.broadcast(1, 3, 1)
		th.Settle()
		th.delivered(5, 1, 2, 3)
		th.broadcast(2, 2, 1)
		if th.refused[1] != abcast.ErrSequence {
			th.t.Errorf("the client that was ordered the longest ago: got %v, want ErrSequence", th.refused[1])
		}
	}},
	{name: "behind-a-gap-is-refused", play: func(th *theater) {
		th.broadcast(1, 1, 1)
		lost := th.Lose(submits, To(3))
		th.broadcast(1, 2, 1)
		th.Pass(submits, To(3))
		th.broadcast(1, 3, 3) // which has 2 and not 1
		if th.refused[3] != abcast.ErrSequence || th.Has(submits, From(3)) {
			th.t.Errorf("number 3 where number 1 is missing: got %v, want ErrSequence", th.refused[3])
		}
		th.Settle()
		th.delivered(2, 1, 2, 3)
		th.Late(lost)
		th.Settle()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "nobody-knows-of-who-is-forgotten-in-a-state", change: func(c *abcast.Config) { alive(c); one(c) }, play: func(th *theater) {
		th.broadcast(1, 1, 3)
		th.beat()
		th.broadcast(1, 2, 3)
		th.Settle(To(3)) // 1 and 2 order it, and 3 does not hear of it
		th.Lose(To(3))
		th.delivered(2, 1, 2)
		th.broadcast(2, 1, 1)
		th.Settle(To(3))
		th.Lose(To(3))
		th.trim(3, 1, 2)
		th.beat()
		th.delivered(3, 1, 2, 3)
		if th.refused[3] != nil || th.forgotten[3] != 2 {
			th.t.Errorf("number 2, which was ordered and is in no session of the state: refused (%v), and should be Forgotten", th.refused[3])
		}
	}},
	{name: "who-comes-forgets-whom-the-others-forget", change: func(c *abcast.Config) { alive(c); one(c) }, play: func(th *theater) {
		th.cfg.Clients = 50
		th.start(4, nil)
		th.broadcast(1, 1, 1)
		th.change(9, 1, 2, add(4))
		th.beat()
		th.broadcast(1, 2, 4) // the change has made all forget client 1
		if th.refused[4] != abcast.ErrSequence {
			th.t.Errorf("number 2 of a forgotten client, at the newcomer: got %v, want ErrSequence", th.refused[4])
		}
		th.beat()
		th.delivered(2, 1, 2, 3, 4)
	}},
	{name: "what-waits-goes-on-behind-a-state", change: func(c *abcast.Config) { alive(c); one(c) }, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.Settle()
		for seq := range uint64(2) {
			th.broadcast(1, seq+2, 1)
			th.Settle(To(3))
			th.Lose(To(3))
		}
		th.clients[2] = abcast.NewClient(3, 2)
		th.Step(3, abcast.Broadcast{Message: abcast.Message{Client: th.clients[2], Seq: 1}}) // too early
		th.clients[2] = abcast.NewClient(1, 2)
		th.broadcast(2, 1, 3)
		th.Lose(From(3))
		th.trim(3, 1, 2)
		th.beat()
		th.delivered(4, 1, 2, 3)
		if th.forgotten[3] != 0 {
			th.t.Error("nobody was forgotten, so that the message is known not to be ordered")
		}
	}},
}
