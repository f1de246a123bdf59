package diskleasesim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// voter is a host that takes part in a ballot.
type voter struct {
	b       *ballot
	host    *sim.Process[disklease.Input, disklease.Outcome]
	id      machine.ID // of this life
	oracle  *disklease.Oracle
	value   string
	decided bool // in this life
	claims  int
}

// seat adds a host, which proposes some time later.
func (b *ballot) seat() {
	v := &voter{b: b, host: sim.NewProcess[disklease.Input, disklease.Outcome](b.w, nil, machine.NodeID(len(b.voters)+1), drift/1e6)}
	v.host.Lane = fmt.Sprintf("process %d", v.host.ID)
	v.host.Lag = b.w.Between(0, delta/20)
	b.voters = append(b.voters, v)
	b.w.After(b.w.Between(0, b.spread), v.start)
}

// start begins a life, with an identity of its own.
func (v *voter) start() {
	if v.host.Up() || v.b.over {
		return
	}
	w := v.b.w
	var id machine.ID
	binary.BigEndian.PutUint64(id[:], w.Rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], uint64(v.host.ID))
	v.id = id
	v.oracle = disklease.NewOracle(id, v.claim, v.host.Now())
	consensus := &watched{Proposer: disklease.NewConsensus(id, poll), p: &v.b.parliament}
	v.host.Outcome = v.outcome
	v.host.Access = func(h *sim.Host, a machine.Access) {
		if a.At == 0 {
			v.b.lease.access(h, v.oracle.Writer(), a)
			return
		}
		a.At--
		v.b.store.access(h, id, a)
	}
	v.decided = false
	v.host.Start(disklease.NewElected(v.oracle, v.b.serves(consensus, id), 1))
	v.value = fmt.Sprintf("%d.%d", v.host.ID, v.host.Life())
	v.b.proposals[v.value] = true
	v.host.Step(disklease.Propose{Value: []byte(v.value)})
	if !v.b.healthy && w.Chance(v.b.eager) {
		v.lead()
	}
}

// claim makes the oracle's next claim.
func (v *voter) claim(id machine.ID) disklease.Claim {
	if v.b.oracle == wild {
		return &puppet{}
	}
	lease, err := disklease.New(disklease.Config{
		ID: id, Holder: v.host.Lane, Term: term, Delay: delta, Drift: drift, Trusting: v.b.oracle == trusting,
	})
	if err != nil {
		panic(err)
	}
	return lease
}

func (v *voter) outcome(out disklease.Outcome) {
	w := v.b.w
	switch out := out.(type) {
	case disklease.Leads:
		w.Note("%s leads", v.host.Lane)
	case disklease.Follows:
		w.Note("%s follows: %s", v.host.Lane, out.Why)
	case disklease.Decided:
		w.Note("%s decides %q", v.host.Lane, out.Value)
		w.Mark(sim.Remark, v.host.Lane, "decides %s", out.Value)
		w.Count("decisions", 1)
		if v.decided {
			v.b.fail("integrity: %s decided twice", v.host.Lane)
		}
		v.decided = true
		v.b.onDecision(v.host.Lane, string(out.Value))
	case disklease.Trouble:
		w.Note("%s: %v", v.host.Lane, out.Err)
	}
}

// leads is the oracle's answer if the process asked now. One that is paused does not ask, but
// may as soon as it goes on: before it has heard of anything else.
func (v *voter) leads() bool { return v.host.Up() && v.oracle.IsLeader(v.host.Mono()) }

// lead has a puppet lead for a while, or for ever once all is healed.
func (v *voter) lead() {
	if v.b.oracle != wild || !v.host.Up() {
		return
	}
	leadership := v.b.w.Between(0, 2*term)
	if v.b.healthy {
		leadership = time.Hour
	}
	v.claims++
	v.host.Step(order{out: disklease.Acquired{Token: uint64(v.claims), Deadline: v.host.Mono().Add(leadership)}})
}

// depose has a puppet lead no more.
func (v *voter) depose() {
	if v.b.oracle == wild && v.host.Up() {
		v.host.Step(order{out: disklease.Lost{Why: "it is said so"}})
	}
}

// crash loses all that the process knew. It comes back as another one.
func (v *voter) crash(down time.Duration) {
	if v.host.Up() {
		v.host.Crash()
		v.decided = false
		v.b.w.After(down, v.start)
	}
}

func (v *voter) pause(d time.Duration) {
	if !v.host.Up() || v.host.Paused() {
		return
	}
	v.host.Pause()
	life := v.host.Life()
	v.b.w.After(d, func() {
		if v.host.Life() == life && v.host.Paused() {
			v.host.Resume()
		}
	})
}

func (v *voter) heal() {
	if v.host.Paused() {
		v.host.Resume()
	}
	v.start()
}

// puppet is a lease that is held when the world says so: its inputs are orders.
type puppet struct{ out []disklease.Outcome }

// order is what a puppet has to report.
type order struct {
	disklease.Beside
	out disklease.Outcome
}

func (p *puppet) Step(_ machine.Now, input disklease.LeaseInput) {
	switch in := input.(type) {
	case order:
		p.out = append(p.out, in.out)
	case disklease.Leave:
		p.out = append(p.out, disklease.Left{})
	}
}

func (p *puppet) Accessed(machine.Now, machine.Accessed) {}
func (p *puppet) Wake(machine.Now)                       {}

func (p *puppet) Ready() machine.Ready[disklease.Outcome] {
	rd := machine.Ready[disklease.Outcome]{Outcomes: p.out, Alarm: machine.Never}
	p.out = nil
	return rd
}
