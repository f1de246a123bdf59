package fastctsim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// theater is a stage of members that the judge watches. They suspect no member by themselves.
type theater struct {
	*stage.Stage[fastct.Input, fastct.Outcome]
	t       *testing.T
	judge   *Judge
	ids     []machine.NodeID
	lives   map[machine.NodeID]uint64
	members map[machine.NodeID]*abcast.Consensus
	cfg     fastct.Config
	decided map[machine.NodeID]map[uint64]fastct.Decided
	// proposed are the instances to which a member has proposed in this life.
	proposed map[machine.NodeID]map[uint64]bool
	// rewrites reports whether a log is rewritten now.
	rewrites func() bool
}

func newTheater(t *testing.T, n int, cfg fastct.Config) *theater {
	th := &theater{
		Stage: stage.New[fastct.Input, fastct.Outcome](t), t: t, judge: NewJudge(n), cfg: cfg, lives: map[machine.NodeID]uint64{},
		members: map[machine.NodeID]*abcast.Consensus{}, decided: map[machine.NodeID]map[uint64]fastct.Decided{},
		proposed: map[machine.NodeID]map[uint64]bool{}, rewrites: func() bool { return false },
	}
	th.Sent = th.judge.Sends
	th.Outcome = func(id machine.NodeID, out fastct.Outcome) {
		if d, ok := out.(fastct.Decided); ok {
			th.judge.onDecision(id, th.lives[id], d)
			th.decided[id][d.CN] = d
		}
	}
	for i := range n {
		th.ids = append(th.ids, machine.NodeID(i+1))
	}
	for _, id := range th.ids {
		th.start(id, nil)
	}
	return th
}

func (th *theater) start(id machine.NodeID, records []any) {
	th.t.Helper()
	th.lives[id]++
	th.decided[id], th.proposed[id] = map[uint64]fastct.Decided{}, map[uint64]bool{}
	cfg := th.cfg
	cfg.ID, cfg.Members, cfg.Retry = id, th.ids, retry
	if cfg.Lambda == 0 {
		cfg.Lambda, cfg.Fixed = 1, true
	}
	c, err := abcast.NewConsensus(cfg, th.lives[id], records)
	if err != nil {
		th.t.Fatal(err)
	}
	th.members[id] = c
	th.Start(id, sim.Rewriting[fastct.Input, fastct.Outcome]{Receiver: c, Records: c.Records, When: func() bool { return th.rewrites() }})
}

// rewritten restarts a member whose log was rewritten just before.
func (th *theater) rewritten(id machine.NodeID) {
	th.t.Helper()
	th.Rewrite(id, th.members[id].Records())
	th.restart(id)
}

func (th *theater) restart(id machine.NodeID) {
	th.t.Helper()
	th.Crash(id)
	th.start(id, th.Durable(id))
}

// propose lets a member propose a value that is named after it.
func (th *theater) propose(cn uint64, value string, ids ...machine.NodeID) {
	for _, id := range ids {
		v := value
		if v == "" {
			v = string(rune('a' + id - 1))
		}
		p := fastct.Propose{CN: cn, Value: []byte(v)}
		th.judge.onProposal(p)
		th.Step(id, p)
	}
}

func (th *theater) suspect(id machine.NodeID, of ...machine.NodeID) {
	for _, o := range of {
		th.Step(id, fastct.Suspect{Node: o, Suspected: true})
	}
}

func (th *theater) trust(id machine.NodeID, of ...machine.NodeID) {
	for _, o := range of {
		th.Step(id, fastct.Suspect{Node: o})
	}
}

// wantDecided wants members to have decided something, the same.
func (th *theater) wantDecided(cn uint64, value string, ids ...machine.NodeID) {
	th.t.Helper()
	for _, id := range ids {
		if d, ok := th.decided[id][cn]; !ok || value != "" && string(d.Value) != value {
			th.t.Errorf("member %d has decided %q (%v) in instance %d, want %q", id, d.Value, ok, cn, value)
		}
	}
}

func (th *theater) undecided(cn uint64, ids ...machine.NodeID) {
	th.t.Helper()
	for _, id := range ids {
		if d, ok := th.decided[id][cn]; ok {
			th.t.Errorf("member %d has decided %q in instance %d, want nothing yet", id, d.Value, cn)
		}
	}
}

// fast wants an instance to have been decided in FAST mode.
func (th *theater) fast(cn uint64, id machine.NodeID) {
	th.t.Helper()
	if d, ok := th.decided[id][cn]; !ok || d.Round < 0 || d.Round >= int64(len(th.ids)) {
		th.t.Errorf("member %d has decided instance %d in round %d (%v), want a FAST round", id, cn, d.Round, ok)
	}
}

// wantLeases wants a member to have invoked lease() so many times.
func (th *theater) wantLeases(id machine.NodeID, want uint64) {
	th.t.Helper()
	if got := th.members[id].Leases; got != want {
		th.t.Errorf("member %d has invoked lease() %d times, want %d", id, got, want)
	}
}
