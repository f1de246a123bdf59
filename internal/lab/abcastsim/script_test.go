package abcastsim

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	. "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

func allScripts() []script {
	return slices.Concat(scripts, directScripts, catchUpScripts, groupScripts, addressScripts, forgetScripts)
}

func TestScripts(t *testing.T) {
	for _, sc := range allScripts() {
		t.Run(sc.name, func(t *testing.T) {
			cfg := config()
			if sc.change != nil {
				sc.change(&cfg)
			}
			th := newTheaterOf(t, cfg, sc.addresses)
			sc.play(th)
			if err := th.judge.Err(); err != nil {
				t.Error(err)
			}
			if err := th.epochs.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

var submits = Kind[abcast.Submit]()

type script struct {
	name      string
	change    func(*abcast.Config)
	addresses addresses
	play      func(th *theater)
}

// scripts are schedules in which one rule each is needed. More are in the lists
// of allScripts.
var scripts = []script{
	{name: "from-anywhere", play: func(th *theater) {
		for seq := range uint64(5) {
			th.broadcast(1, seq+1, 1)
			th.broadcast(2, seq+1, 2)
			th.broadcast(3, seq+1, 3)
			th.Settle()
		}
		th.delivered(15, 1, 2, 3)
	}},
	{name: "repeated-while-it-waits", play: func(th *theater) {
		th.broadcast(1, 1, 2)
		th.broadcast(1, 1, 2)
		th.Settle()
		th.delivered(1, 1, 2, 3)
		th.broadcast(1, 1, 2)
		if th.repeated[2] != 1 {
			th.t.Errorf("acknowledgment: member 2 says of number %d that it is ordered, want 1", th.repeated[2])
		}
	}},
	{name: "at-two-members", play: func(th *theater) {
		th.broadcast(1, 1, 2, 3)
		th.Settle()
		th.delivered(1, 1, 2, 3)
		th.broadcast(1, 1, 1)
		th.Settle()
		th.delivered(1, 1, 2, 3)
		if th.repeated[1] != 1 {
			th.t.Error("member 1 does not say that the message was ordered before")
		}
	}},
	{name: "in-two-instances", change: func(c *abcast.Config) { c.Pipeline, c.Consensus.Plain = 2, true }, play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.Lose(submits)
		th.broadcast(2, 1, 2)
		th.Lose(submits)
		th.broadcast(1, 1, 2) // 1 has proposed it to instance 1, 2 does to instance 2
		th.Settle()
		th.Wait(2 * retry)
		th.Settle()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "the-coordinator-has-it-last", change: func(c *abcast.Config) { c.Consensus.Plain = true }, play: func(th *theater) {
		th.broadcast(1, 1, 3)
		late := th.Lose(submits, To(1))
		th.Settle()
		th.delivered(0, 1, 2, 3) // 2 and 3 have begun as many instances as they may
		th.Late(late)
		th.Settle()
		th.Wait(retry / 8)
		th.Settle()
		th.delivered(1, 1, 2, 3)
	}},
	{name: "who-has-nothing-to-say-takes-part", play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.Lose(submits)
		th.Settle(Kind[fastct.Estimate]())
		if len(th.Wire) > 0 {
			th.t.Errorf("a member with the coordinator's estimate should not send it one: %v", th.Wire)
		}
		th.delivered(1, 1, 2, 3)
	}},
	{name: "sent-again-until-it-is-ordered", play: func(th *theater) {
		th.broadcast(1, 1, 3)
		th.Lose(submits)
		th.Settle() // 1 and 2 take part and decide nothing
		th.Wait(2 * retry)
		th.Settle()
		th.delivered(1, 1, 2, 3)
	}},
	{name: "proposed-in-vain-is-no-hindrance", change: func(c *abcast.Config) { c.BatchCount = 1 }, play: func(th *theater) {
		for client := range byte(2) {
			th.broadcast(client, 1, 3)
			th.Lose(submits)
			th.Settle() // it has an end, though the first of them would fill each batch
		}
		th.delivered(0, 1, 2, 3)
		th.Wait(2 * retry)
		th.Settle()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "who-got-it-passes-it-on", play: func(th *theater) {
		th.broadcast(1, 1, 3)
		th.Pass(submits, To(2))
		th.Crash(3)
		th.Wire = nil
		th.Settle()
		for range 8 {
			th.Wait(retry)
			th.Settle(To(3))
		}
		th.delivered(1, 1, 2)
	}},
	{name: "what-was-not-decided-is-proposed-again", play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.broadcast(2, 1, 2) // 2 proposes its own, and 1 imposes another
		th.Settle(submits)
		th.Pass(submits)
		th.Settle()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "in-turn", change: func(c *abcast.Config) { c.Pipeline = 3 }, play: func(th *theater) {
		th.broadcast(1, 1, 3)
		th.broadcast(1, 2, 3)
		th.broadcast(1, 3, 3)
		late := th.Lose(submits, To(1))
		for i := range late {
			th.Late(late[len(late)-1-i:][:1])
		}
		th.Settle()
		for range 8 {
			th.Wait(retry)
			th.Settle()
		}
		th.delivered(3, 1, 2, 3)
	}},
	{name: "out-of-turn-is-refused", play: func(th *theater) {
		th.broadcast(1, 2, 1)
		if th.refused[1] != abcast.ErrSequence {
			th.t.Errorf("number 2 before number 1: got %v, want ErrSequence", th.refused[1])
		}
		th.Settle()
		th.delivered(0, 1, 2, 3)
	}},
	{name: "positions-survive", play: func(th *theater) {
		for seq := range uint64(3) {
			th.broadcast(1, seq+1, 2)
			th.Settle()
		}
		for _, id := range []machine.NodeID{1, 2, 3} {
			th.restart(id)
		}
		th.delivered(3, 1, 2, 3)
		th.broadcast(1, 3, 1)
		th.broadcast(1, 4, 1)
		for range 4 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(4, 1, 2, 3)
	}},
	{name: "what-was-delivered-is-decided-after-a-restart", play: func(th *theater) {
		th.broadcast(1, 1, 1)
		th.Settle()
		th.delivered(1, 1, 2, 3)
		for _, id := range []machine.NodeID{1, 2, 3} {
			th.Crash(id)
			records := th.Durable(id)
			for i, r := range records {
				if _, ok := r.(fastct.Settled); ok {
					records = records[:i] // it was not forced
					break
				}
			}
			th.start(id, records)
		}
		for range 8 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(1, 1, 2, 3)
	}},
	{name: "what-follows-a-lost-message-goes", change: func(c *abcast.Config) { c.PendingCount = 2 }, play: func(th *theater) {
		for client := range byte(2) { // two that no member can order, and no more may wait
			th.broadcast(client, 1, 3)
			th.Lose(From(3))
			th.broadcast(client, 2, 3)
			th.Pass(submits)
			th.restart(3)
		}
		for range 8 {
			th.Wait(retry)
			th.Settle()
		}
		th.broadcast(9, 1, 1)
		th.Settle()
		th.delivered(1, 1, 2, 3)
	}},
	{name: "strangers-are-not-believed", change: alive, play: func(th *theater) {
		m := abcast.Message{Client: abcast.NewClient(0, 7), Seq: 1, Payload: []byte("of a stranger")}
		var batch []byte
		batch = append(batch, m.Client[:]...)
		batch = append(batch, 1, byte(len(m.Payload)<<1))
		batch = append(batch, m.Payload...)
		ahead := abcast.Base{Order: abcast.State{Instance: 3, Position: 0, Group: th.members[1].Group(), Clients: 100}}
		for _, body := range []any{
			abcast.Submit{Messages: []abcast.Message{m}}, abcast.Decisions{From: 1, Values: [][]byte{batch}}, abcast.Transfer{Base: ahead},
		} {
			th.Late([]machine.Envelope{{From: 99, To: 2, Body: body}})
		}
		if i := th.members[2].Instance(); i != 0 {
			th.t.Errorf("member 2 is at instance %d, as a stranger says", i)
		}
		th.broadcast(1, 1, 1)
		th.beat()
		th.delivered(1, 1, 2, 3)
	}},
	{name: "in-normal-mode-all-get-it", change: func(c *abcast.Config) { c.Direct = true }, play: func(th *theater) {
		th.broadcast(1, 1, 2)
		th.Settle()
		th.Crash(1) // with a lease for some more instances
		for _, id := range []machine.NodeID{2, 3} {
			th.Step(id, abcast.Suspect{Node: 1, Suspected: true})
		}
		th.broadcast(1, 2, 2)
		th.Settle()
		th.delivered(2, 2, 3)
		th.broadcast(2, 1, 3)
		if !th.Has(submits, To(1)) || !th.Has(submits, To(2)) {
			th.t.Error("what a majority has to propose should go to all")
		}
		th.Settle()
		th.delivered(3, 2, 3)
	}},
	{name: "busy", change: func(c *abcast.Config) { c.PendingCount = 2 }, play: func(th *theater) {
		for seq := range uint64(3) {
			th.broadcast(1, seq+1, 1)
		}
		if th.refused[1] != abcast.ErrBusy {
			th.t.Errorf("the third of two that may wait: got %v, want ErrBusy", th.refused[1])
		}
		th.Settle()
		th.delivered(2, 1, 2, 3)
		th.broadcast(1, 3, 1)
		th.Settle()
		th.delivered(3, 1, 2, 3)
	}},
}
