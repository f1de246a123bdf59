package replica

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

// plans is this member's part in finding out which members should hold which keys, under a
// policy that plans. Each member counts the reads that come in there, wherever the answer
// comes from. The leader also counts the writes, all of which it sees. Members tell the
// leader their counts every PlanEvery, and it plans. None of that bears on safety: the log
// alone says which member holds which keys, whatever is counted, lost or planned.
type plans struct {
	counter *placement.Counter // nil while nothing is planned
	seq     uint64             // of the counts told last
	next    machine.Mono       // when to tell, and to plan
	trips   []roundTrip        // to voters, smoothed, by member
	counted placement.Counts   // what was told last

	// At the leader, of its leadership:
	planner  *placement.Planner
	policy   quorumlease.Policy // for which it plans
	since    machine.Mono
	heard    []teller // by member
	observed []observation
	stalled  []machine.NodeID // as of the plan before
	underWay *Plan
	ready    *placement.Configuration // to be proposed
}

// counts tells the leader what a member has counted since it told last, and how far it
// is from others.
type counts struct {
	Boot, Seq uint64
	Trips     []roundTrip
	Body      []byte // placement.Counts, encoded
}

type roundTrip struct {
	Member machine.NodeID
	Time   time.Duration
}

// teller is a member that has told, and when it did last.
type teller struct {
	Member    machine.NodeID
	boot, seq uint64
	at        machine.Mono
}

type observation struct {
	from machine.NodeID
	counts
}

const (
	// maxCounts bounds the bytes of one message. More is known to nobody then: it would
	// take a member that reads half a million keys in five seconds.
	maxCounts = 1 << 20
	// silence is after how many intervals a member that has told nothing is given up.
	silence = 3
)

// Plan is work for the owner: to call Make where nobody waits for it, and to step what
// that returns. Each is to be made, once, in whatever time.
type Plan struct {
	planner  *placement.Planner
	now      machine.Mono
	observed []observation
	members  []machine.NodeID
	down     []machine.NodeID
}

// Planned is what a Plan's Make has returned.
type Planned struct {
	plan  *Plan
	cells *placement.Configuration
}

// Make takes up to 50 ms of a processor. Any goroutine may call it; no other uses what
// the Plan refers to until its Planned is stepped.
func (p *Plan) Make() Planned {
	for _, o := range p.observed {
		for _, t := range o.Trips {
			p.planner.RTT(o.from, t.Member, t.Time)
		}
		if c, err := placement.DecodeCounts(o.Body); err == nil {
			_ = p.planner.Observe(o.from, c) // of another number of buckets: no use
		}
	}
	for _, m := range p.members {
		p.planner.Down(m, slices.Contains(p.down, m))
	}
	cells, _ := p.planner.Plan(p.now)
	return Planned{p, cells}
}

// planner are the settings of this member's Planner.
func (c *Config) planner(policy quorumlease.Policy, voters, learners []machine.NodeID) placement.Settings {
	s := c.ReadLeases.Planner
	s.Policy, s.Leader, s.Members = placement.Quorum, c.ID, nil
	if policy == quorumlease.Cost {
		s.Policy = placement.Cost
	}
	for _, id := range voters {
		s.Members = append(s.Members, placement.Member{ID: id})
	}
	for _, id := range learners {
		s.Members = append(s.Members, placement.Member{ID: id, Learner: true})
	}
	return s
}

// follow learns what the cluster has decided.
func (p *plans) follow(at moment, s readSetting) {
	switch {
	case !s.policy.Planned():
		*p = plans{seq: p.seq, trips: p.trips}
		return
	case p.counter == nil:
		p.counter = placement.NewCounter(at.cfg.ReadLeases.Planner.Buckets)
		p.next = at.now.Add(at.cfg.ReadLeases.PlanEvery)
	}
	if s.cells != nil {
		p.counter.Follow(s.cells)
	}
}

// read counts a read that came in here.
func (p *plans) read(keys keyspan.Set) {
	if p.counter == nil {
		return
	}
	for _, s := range keys {
		p.counter.ReadRange(s.Key, s.End)
	}
}

// readHere reports whether any of some keys was read much here of late. While nothing is
// counted they may all be.
func (p *plans) readHere(keys keyspan.Set) bool {
	return p.counter == nil || slices.ContainsFunc(keys, func(s keyspan.Span) bool {
		return len(s.End) == 0 && p.counted.Of(s.Key).Reads > 0
	})
}

// wrote counts, at the leader, an entry that came from a member.
func (p *plans) wrote(from machine.NodeID, writes keyspan.Set) {
	if p.counter == nil {
		return
	}
	keys := make([][]byte, 0, 8)
	for _, s := range writes {
		if len(s.End) == 0 {
			keys = append(keys, s.Key)
		}
	}
	p.counter.Write(from, keys...)
}

// answered notes how long a voter took to answer.
func (p *plans) answered(by machine.NodeID, took time.Duration) {
	i, known := slices.BinarySearchFunc(p.trips, by, func(t roundTrip, id machine.NodeID) int { return cmp.Compare(t.Member, id) })
	if !known {
		p.trips = slices.Insert(p.trips, i, roundTrip{by, took})
	}
	p.trips[i].Time += (took - p.trips[i].Time) / 8
}

// restart begins anew, under another leader: of the earlier leader's knowledge only its decisions are
// left.
func (p *plans) restart() {
	p.planner, p.underWay, p.ready, p.observed, p.heard = nil, nil, nil, nil, nil
}

// planning is what plans are made by.
type planning struct {
	*electorate
	policy   quorumlease.Policy // as it is applied
	every    time.Duration
	latest   readSetting // by the log
	settled  bool        // all of the log is accounted for, and the change before is released
	stalled  []machine.NodeID
	promises Promises
}

// turn tells what was counted, and plans. It returns what is to be proposed, or nil.
func (p *plans) turn(at moment, eff *effects, by planning) (propose *placement.Configuration) {
	if p.counter == nil {
		return nil
	}
	if at.presides() && (p.planner == nil || p.policy != by.policy) {
		p.begin(at, by)
	}
	propose = p.propose(at, by)
	if at.now < p.next {
		return propose
	}
	p.next = at.now.Add(by.every)
	if at.leader == 0 {
		return propose // what is counted is told to the next one
	}
	p.seq++
	p.counted = p.counter.Take()
	m := counts{Boot: at.cfg.Boot, Seq: p.seq, Trips: slices.Clone(p.trips), Body: p.counted.Encode()}
	switch {
	case at.leading():
		p.told(at, by.electorate, at.cfg.ID, m)
	case len(m.Body) <= maxCounts:
		eff.send(at.leader, m)
	}
	if p.planner != nil && p.underWay == nil {
		p.plan(at, eff, by)
	}
	return propose
}

// begin takes over from what is in the log: with this leader in it at once, the rest
// by and by.
func (p *plans) begin(at moment, by planning) {
	p.restart()
	present := by.latest.cells
	planner, err := placement.NewPlanner(at.cfg.planner(by.policy, by.voters, by.learners), present)
	if err != nil {
		p.counter = nil // of more members than a configuration may name
		return
	}
	p.planner, p.policy, p.since, p.stalled = planner, by.policy, at.now, nil
	if present != nil {
		p.ready = planner.Present()
	}
}

// told takes counts, each once.
func (p *plans) told(at moment, e *electorate, from machine.NodeID, m counts) {
	if !at.leading() || p.counter == nil || !slices.Contains(e.voters, from) && !slices.Contains(e.learners, from) {
		return
	}
	i := slices.IndexFunc(p.heard, func(t teller) bool { return t.Member == from })
	if i < 0 {
		i = len(p.heard)
		p.heard = append(p.heard, teller{Member: from})
	}
	t := &p.heard[i]
	if m.Boot < t.boot || m.Boot == t.boot && m.Seq <= t.seq {
		return // it came before, or what came later was taken already
	}
	t.boot, t.seq, t.at = m.Boot, m.Seq, at.now
	// A Plan that takes long must not have this grow.
	if n := slices.IndexFunc(p.observed, func(o observation) bool { return o.from == from }); n >= 0 && len(p.observed) > 2*len(p.heard) {
		p.observed = slices.Delete(p.observed, n, n+1)
	}
	p.observed = append(p.observed, observation{from, m})
}

// plan has the owner make a plan.
func (p *plans) plan(at moment, eff *effects, by planning) {
	plan := &Plan{planner: p.planner, now: at.now, observed: p.observed, members: slices.Concat(by.voters, by.learners)}
	for _, m := range plan.members {
		heard := p.since
		if i := slices.IndexFunc(p.heard, func(t teller) bool { return t.Member == m }); i >= 0 {
			heard = p.heard[i].at
		}
		// One stall is an accident.
		stalled := slices.Contains(by.stalled, m) && slices.Contains(p.stalled, m)
		if stalled || by.promises.Suspected(at.now, m) || at.now.Sub(heard) > silence*by.every {
			plan.down = append(plan.down, m)
		}
	}
	p.underWay, p.observed, p.stalled = plan, nil, slices.Clone(by.stalled)
	eff.outcomes = append(eff.outcomes, plan)
}

// planned takes a plan that was made. One of an earlier leadership is nobody's.
func (p *plans) planned(in Planned) {
	if in.plan == p.underWay {
		p.underWay, p.ready = nil, in.cells
	}
}

// propose takes the plan that is to be brought into the log, if it says anything new. It
// takes none before all of the log is accounted for and the change before is released; by
// then a later plan may have taken its place.
func (p *plans) propose(at moment, by planning) *placement.Configuration {
	if p.ready == nil || !at.presides() || !by.settled {
		return nil
	}
	cells := p.ready
	p.ready = nil
	// The log may have another policy since.
	if now := by.latest; now.policy != p.policy || now.cells != nil && cells.Equal(now.cells) {
		return nil
	}
	return cells
}

// due returns when there is something to do.
func (p *plans) due() machine.Mono {
	if p.counter == nil {
		return machine.Never
	}
	return p.next
}
