package abcastsim

import (
	"fmt"
	"testing"

	"github.com/tenure-lease/tenure/abcast"
	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/sim/fastctsim"
	. "github.com/tenure-lease/tenure/sim/stage"
)

// theater is a stage of three members that the judges watch.
type theater struct {
	*Stage
	t         *testing.T
	judge     *Judge
	consensus *fastctsim.Judge
	cfg       abcast.Config
	members   map[machine.NodeID]*abcast.Machine
	replicas  map[machine.NodeID]*replica
	lives     map[machine.NodeID]uint64
	refused   map[machine.NodeID]error // the last
	repeated  map[machine.NodeID]uint64
}

func config() abcast.Config {
	return abcast.Config{
		Consensus:  fastct.Config{Members: []machine.NodeID{1, 2, 3}, Retry: retry, Lambda: 10},
		BatchCount: 10, BatchBytes: 1000, PendingCount: 10, PendingBytes: 10_000, Pipeline: 1, Relay: 4 * retry, Clients: 100,
	}
}

func newTheater(t *testing.T, cfg abcast.Config) *theater {
	th := &theater{
		Stage: New(t), t: t, judge: NewJudge(), consensus: fastctsim.NewJudge(3), cfg: cfg, members: map[machine.NodeID]*abcast.Machine{},
		replicas: map[machine.NodeID]*replica{}, lives: map[machine.NodeID]uint64{}, refused: map[machine.NodeID]error{}, repeated: map[machine.NodeID]uint64{},
	}
	th.Sent = th.consensus.Sends
	th.Outcome = func(id machine.NodeID, out any) {
		switch o := out.(type) {
		case abcast.Delivered:
			th.judge.Delivers(th.replicas[id], o)
		case abcast.Installed:
			th.judge.Installs(th.replicas[id], o)
		case abcast.Refused:
			th.refused[id] = o.Err
		case abcast.Repeated:
			th.repeated[id] = o.Seq
		}
	}
	for _, id := range cfg.Consensus.Members {
		th.starts(id, nil)
	}
	return th
}

func (th *theater) starts(id machine.NodeID, records []any) {
	th.t.Helper()
	th.lives[id]++
	cfg := th.cfg
	cfg.Consensus.ID, cfg.Life = id, th.lives[id]
	m, err := abcast.New(cfg, records)
	if err != nil {
		th.t.Fatal(err)
	}
	r := &replica{name: fmt.Sprintf("member %d", id), position: m.Base().Position}
	th.members[id], th.replicas[id] = m, r
	messages, _ := m.Messages(r.position, 1000)
	for _, d := range messages {
		th.judge.Delivers(r, d)
	}
	th.Start(id, m)
}

func (th *theater) restarts(id machine.NodeID) {
	th.t.Helper()
	th.Crash(id)
	th.starts(id, th.Durable(id))
}

// broadcasts lets a client, numbered, broadcast his message of a number at members.
func (th *theater) broadcasts(client byte, seq uint64, at ...machine.NodeID) {
	for _, id := range at {
		m := abcast.Message{Client: machine.ID{client}, Seq: seq, Payload: fmt.Appendf(nil, "%d.%d", client, seq)}
		th.judge.Broadcasts(m)
		th.Step(id, abcast.Broadcast{Message: m})
	}
}

// trims lets members' owners have a state after a position.
func (th *theater) trims(position uint64, ids ...machine.NodeID) {
	for _, id := range ids {
		th.Step(id, abcast.Trim{Position: position, App: th.judge.App(position)})
	}
}

// delivered wants members to have delivered n messages.
func (th *theater) delivered(n uint64, ids ...machine.NodeID) {
	th.t.Helper()
	for _, id := range ids {
		if got := th.replicas[id].position; got != n {
			th.t.Errorf("member %d has delivered %d messages, want %d", id, got, n)
		}
	}
}

func TestScripts(t *testing.T) {
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			cfg := config()
			if sc.change != nil {
				sc.change(&cfg)
			}
			th := newTheater(t, cfg)
			sc.play(th)
			if err := th.judge.Err(); err != nil {
				t.Error(err)
			}
			if err := th.consensus.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

var submits = Kind[abcast.Submit]()

// scripts are schedules in which one rule each is needed.
var scripts = []struct {
	name   string
	change func(*abcast.Config)
	play   func(th *theater)
}{
	{name: "from-anywhere", play: func(th *theater) {
		for seq := range uint64(5) {
			th.broadcasts(1, seq+1, 1)
			th.broadcasts(2, seq+1, 2)
			th.broadcasts(3, seq+1, 3)
			th.Settle()
		}
		th.delivered(15, 1, 2, 3)
	}},
	{name: "at-two-members", play: func(th *theater) {
		th.broadcasts(1, 1, 2, 3)
		th.Settle()
		th.delivered(1, 1, 2, 3)
		th.broadcasts(1, 1, 1)
		th.Settle()
		th.delivered(1, 1, 2, 3)
		if th.repeated[1] != 1 {
			th.t.Error("member 1 does not say that the message was ordered before")
		}
	}},
	{name: "in-two-instances", change: func(c *abcast.Config) { c.Pipeline, c.Consensus.Plain = 2, true }, play: func(th *theater) {
		th.broadcasts(1, 1, 1)
		th.Lose(submits)
		th.broadcasts(2, 1, 2)
		th.Lose(submits)
		th.broadcasts(1, 1, 2) // 1 has proposed it to instance 1, 2 does to instance 2
		th.Settle()
		th.Wait(2 * retry)
		th.Settle()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "who-has-nothing-to-say-takes-part", play: func(th *theater) {
		th.broadcasts(1, 1, 1)
		th.Lose(submits)
		th.Settle()
		th.delivered(1, 1, 2, 3)
	}},
	{name: "sent-again-until-it-is-ordered", play: func(th *theater) {
		th.broadcasts(1, 1, 3)
		th.Lose(submits)
		th.Settle() // 1 and 2 take part and decide nothing
		th.Wait(2 * retry)
		th.Settle()
		th.delivered(1, 1, 2, 3)
	}},
	{name: "who-got-it-passes-it-on", play: func(th *theater) {
		th.broadcasts(1, 1, 3)
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
		th.broadcasts(1, 1, 1)
		th.broadcasts(2, 1, 2) // 2 proposes its own, and 1 imposes another
		th.Settle(submits)
		th.Pass(submits)
		th.Settle()
		th.delivered(2, 1, 2, 3)
	}},
	{name: "in-turn", change: func(c *abcast.Config) { c.Pipeline = 3 }, play: func(th *theater) {
		th.broadcasts(1, 1, 3)
		th.broadcasts(1, 2, 3)
		th.broadcasts(1, 3, 3)
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
		th.broadcasts(1, 2, 1)
		if th.refused[1] != abcast.ErrSequence {
			th.t.Errorf("number 2 before number 1: got %v, want ErrSequence", th.refused[1])
		}
		th.Settle()
		th.delivered(0, 1, 2, 3)
	}},
	{name: "positions-survive", play: func(th *theater) {
		for seq := range uint64(3) {
			th.broadcasts(1, seq+1, 2)
			th.Settle()
		}
		for _, id := range []machine.NodeID{1, 2, 3} {
			th.restarts(id)
		}
		th.delivered(3, 1, 2, 3)
		th.broadcasts(1, 3, 1)
		th.broadcasts(1, 4, 1)
		for range 4 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(4, 1, 2, 3)
	}},
	{name: "what-was-delivered-is-decided-after-a-restart", play: func(th *theater) {
		th.broadcasts(1, 1, 1)
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
			th.starts(id, records)
		}
		for range 8 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(1, 1, 2, 3)
	}},
	{name: "trimmed-and-restarted", play: func(th *theater) {
		for seq := range uint64(4) {
			th.broadcasts(1, seq+1, 2)
			th.Settle()
		}
		th.trims(2, 2)
		th.restarts(2)
		if p := th.members[2].Base().Position; p != 2 {
			th.t.Errorf("the log begins after position %d, want 2", p)
		}
		th.delivered(4, 2)
		if _, ok := th.members[2].Messages(1, 10); ok {
			th.t.Error("message 2 was trimmed, and is there")
		}
		th.broadcasts(1, 4, 2) // ordered before what was trimmed is forgotten
		th.Settle()
		th.delivered(4, 1, 2)
	}},
	{name: "far-behind", play: func(th *theater) {
		behind := To(3)
		th.broadcasts(1, 1, 1)
		th.Settle()
		for seq := range uint64(6) {
			th.broadcasts(1, seq+2, 1)
			th.Settle(behind)
			th.Lose(behind)
		}
		th.delivered(1, 3)
		th.trims(5, 1, 2)
		th.broadcasts(1, 8, 1)
		for range 6 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(8, 1, 2, 3)
		th.broadcasts(1, 7, 3) // it knows what was ordered before
		th.broadcasts(1, 9, 1)
		th.Settle()
		th.delivered(9, 1, 2, 3)
		th.restarts(3)
		th.delivered(9, 3)
	}},
	{name: "a-state-within-a-batch", play: func(th *theater) {
		behind := To(3)
		th.broadcasts(2, 1, 1)
		for seq := range uint64(4) {
			th.broadcasts(1, seq+1, 1) // one instance orders them all
		}
		th.Settle(behind)
		th.Lose(behind)
		th.trims(3, 1, 2)
		th.broadcasts(1, 5, 1)
		for range 4 {
			th.Settle()
			th.Wait(2 * retry)
		}
		th.delivered(6, 1, 2, 3)
		th.restarts(1)
		if p := th.members[1].Base().Position; p != 3 {
			th.t.Errorf("the log begins after position %d, want 3", p)
		}
		th.delivered(6, 1)
	}},
	{name: "busy", change: func(c *abcast.Config) { c.PendingCount = 2 }, play: func(th *theater) {
		for seq := range uint64(3) {
			th.broadcasts(1, seq+1, 1)
		}
		if th.refused[1] != abcast.ErrBusy {
			th.t.Errorf("the third of two that may wait: got %v, want ErrBusy", th.refused[1])
		}
		th.Settle()
		th.delivered(2, 1, 2, 3)
		th.broadcasts(1, 3, 1)
		th.Settle()
		th.delivered(3, 1, 2, 3)
	}},
}
