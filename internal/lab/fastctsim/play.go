package fastctsim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Protocol is package fastct, over package asynclease, in worlds of its own.
func Protocol() sim.Protocol {
	return sim.Protocol{
		Name:  "fastct",
		About: "one to seven members that agree in many instances, FastCT or CT96, crash-stop and crash-recovery; agreement, validity, integrity, termination, Lemma 5",
		Play:  playWorld,
	}
}

const (
	retry     = 100 * time.Millisecond
	heartbeat = 100 * time.Millisecond
	timeout   = 400 * time.Millisecond
	// patience is how long decisions may take once nothing fails any more: the failure
	// detector has to find its timeouts first.
	patience = 60 * time.Second
)

type play struct {
	w        *sim.World
	net      *sim.Network
	judge    *Judge
	members  []*member
	ids      []machine.NodeID
	cfg      fastct.Config
	pipeline int
	down     int
	highest  uint64      // instance that was proposed to
	limit    uint64      // of instances that members begin by themselves
	rewrites func() bool // whether a log is rewritten now
	stopped  bool        // no new instances
}

// member is a host with an owner that proposes.
type member struct {
	p        *play
	host     *sim.Process[fastct.Input, fastct.Outcome]
	cons     *abcast.Consensus // of the last life
	lives    uint64
	proposed map[uint64]bool // in this life
	decided  map[uint64]bool // as far as this life knows
	next     uint64          // the first instance that is not decided here
	dead     bool
}

func playWorld(w *sim.World) error {
	p := &play{w: w, net: sim.NewNetwork(w, func(b any) any { return b })}
	for i := range [...]int{3, 5, 3, 4, 2, 7, 1}[w.Seed%7] {
		p.ids = append(p.ids, machine.NodeID(i+1))
	}
	p.judge = NewJudge(len(p.ids))
	p.net.Take = func(e machine.Envelope) bool { p.judge.Sends(e); return false }
	p.cfg = fastct.Config{
		Members: p.ids, Retry: retry, Heartbeat: heartbeat, Timeout: timeout, Lambda: 1 + w.Rand.Uint64N(20),
		Plain: w.Chance(0.2), Spread: w.Chance(0.5), Volatile: w.Chance(0.3), Fixed: w.Chance(0.3), Optimistic: w.Chance(0.3), Prefetch: w.Chance(0.3),
	}
	p.pipeline = 1 + w.Rand.IntN(3)
	p.rewrites = w.Rewrites()
	for _, id := range p.ids {
		k := &member{p: p, host: sim.NewProcess[fastct.Input, fastct.Outcome](w, p.net, id, 1e-3), decided: map[uint64]bool{}, next: 1}
		k.host.Lane = fmt.Sprintf("member %d", id)
		k.host.Outcome = k.outcome
		p.members = append(p.members, k)
		k.start()
	}
	for range 2 {
		p.chaos(w.Between(3*time.Second, 8*time.Second))
		p.settle()
	}
	return p.judge.Err()
}

// start gives a member its next life.
func (k *member) start() {
	k.lives++
	k.proposed = map[uint64]bool{}
	cfg := k.p.cfg
	cfg.ID = k.host.ID
	c, err := abcast.NewConsensus(cfg, k.lives, k.host.Disk.Durable)
	if err != nil {
		k.p.judge.violated("member %d does not start again: %v", k.host.ID, err)
		return
	}
	clear(k.decided)
	for cn := range k.p.highest {
		_, k.decided[cn+1] = c.Decision(cn + 1)
	}
	for k.next = 1; k.decided[k.next]; k.next++ {
	}
	k.cons = c
	k.host.Start(sim.Rewriting[fastct.Input, fastct.Outcome]{Receiver: c, Records: c.Records, When: k.p.rewrites})
	k.proposeNext()
}

// proposeNext proposes to the next instances in a while.
func (k *member) proposeNext() {
	think := 500 * time.Millisecond
	if k.p.stopped {
		think /= 50 // a member that is behind has little time left
	}
	k.host.After(k.p.w.Between(0, think), func() {
		for i := range k.p.pipeline {
			cn := k.next + uint64(i)
			if !k.p.stopped && cn <= k.p.limit || cn <= k.p.highest {
				k.propose(cn)
			}
		}
	})
}

func (k *member) propose(cn uint64) {
	if k.proposed[cn] {
		return
	}
	k.proposed[cn] = true
	p := fastct.Propose{CN: cn, Value: fmt.Appendf(nil, "%d.%d.%d", k.host.ID, k.lives, cn)}
	k.p.highest = max(k.p.highest, cn)
	k.p.w.Note("member %d proposes %q to %d", k.host.ID, p.Value, cn)
	k.p.judge.onProposal(p)
	k.host.Step(p)
}

func (k *member) outcome(out fastct.Outcome) {
	w := k.p.w
	switch o := out.(type) {
	case fastct.Decided:
		w.Note("member %d decides %q in %d, round %d", k.host.ID, o.Value, o.CN, o.Round)
		w.Count("decisions", 1)
		if o.Round >= 0 && o.Round < int64(len(k.p.ids)) {
			w.Count("fast decisions", 1)
		}
		w.Mark(sim.Remark, k.host.Lane, "instance %d: %q", o.CN, o.Value)
		k.p.judge.onDecision(k.host.ID, k.lives, o)
		k.decided[o.CN], k.proposed[o.CN] = true, true
		for k.decided[k.next] {
			k.next++
		}
		k.proposeNext()
	case fastct.Wanted:
		k.host.After(w.Between(0, 20*time.Millisecond), func() { k.propose(o.CN) })
	case fastct.Leader:
		w.Note("member %d trusts %d", k.host.ID, o.Node)
	}
	if err := k.p.judge.Err(); err != nil {
		w.Mark(sim.Violation, k.host.Lane, "%v", err)
	}
}

// crash ends a member's life. In crash-stop worlds it was the last one.
func (k *member) crash() {
	if n := len(k.p.ids); !k.host.Up() || k.p.cfg.Volatile && n-k.p.down-1 < n/2+1 {
		return // a majority has to live
	}
	k.host.Crash()
	if k.p.cfg.Volatile {
		k.p.down++
		k.dead = true
		return
	}
	k.p.w.After(k.p.w.Between(0, 2*time.Second), func() {
		if !k.host.Up() {
			k.start()
		}
	})
}

func (p *play) some() *member { return p.members[p.w.Rand.IntN(len(p.members))] }

// chaos lets d pass, with faults of the kinds that this world draws.
func (p *play) chaos(d time.Duration) {
	w, n := p.w, p.net
	p.stopped = false
	p.limit = p.highest + 250
	for _, k := range p.members {
		if k.host.Up() {
			k.proposeNext()
		}
	}
	n.Loss, n.Duplicate, n.Slow = w.Swarm(0.3), w.Swarm(0.3), w.Swarm(0.1)
	var kinds []func()
	for _, kind := range []func(){
		func() { p.some().crash() },
		func() { p.some().crash() },
		func() { n.Cut(p.some().host.ID, p.some().host.ID) },
		func() { n.Mend() },
		func() { p.some().host.Step(fastct.Suspect{Node: p.some().host.ID, Suspected: true}) },
		func() {
			if k := p.some(); k.host.Up() && !k.host.Paused() {
				k.host.Pause()
				k.host.After(w.Between(0, 2*time.Second), k.host.Resume)
			}
		},
		func() { p.some().host.Disk.Slow = w.Between(0, 200*time.Millisecond) },
	} {
		if w.Chance(0.5) {
			kinds = append(kinds, kind)
		}
	}
	for end := w.Now() + d; w.Now() < end && p.judge.Err() == nil; {
		if len(kinds) > 0 {
			kinds[w.Rand.IntN(len(kinds))]()
		}
		w.Run(w.Between(0, 500*time.Millisecond))
	}
}

// settle ends all faults but death. Then all living members decide all instances (Lemma 7).
func (p *play) settle() {
	w, n := p.w, p.net
	n.Loss, n.Duplicate, n.Slow = 0, 0, 0
	n.Mend()
	for _, k := range p.members {
		k.host.Disk.Slow = 0
	}
	p.stopped = true
	w.Run(3 * time.Second) // members that are down or paused come back
	for _, k := range p.members {
		if k.host.Up() {
			k.proposeNext()
		}
	}
	missing := func() error {
		for _, k := range p.members {
			if !k.dead && k.next <= p.highest {
				return fmt.Errorf("termination: member %d has not decided instance %d of %d", k.host.ID, k.next, p.highest)
			}
		}
		return nil
	}
	if p.judge.Err() == nil && !w.Until(patience, func() bool { return missing() == nil || p.judge.Err() != nil }) {
		p.judge.errs = append(p.judge.errs, missing())
	}
	for _, k := range p.members {
		for _, r := range k.cons.Refusals() {
			p.judge.violated("member %d refuses what member %d has sent: %v", k.host.ID, r.From, r.Err)
		}
	}
}
