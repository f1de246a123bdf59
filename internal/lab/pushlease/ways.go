package pushlease

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Ways are the paper's ways.
type Ways struct {
	// Push has grantors send promises to all, whether anybody reads there or not, in place of
	// holders that ask (section 3.5, Figure 5). The length of the product's promises has no
	// meaning then, and the longest Wait of earlier lives is its EarlierTTL. No holder is given
	// up for holding up the leader: only the grace period ends a promise.
	Push Lengths
	// Lapse has a grantor that learns of another configuration promise nothing before
	// all of its promises have run out: the first way of section 3.5.
	Lapse bool
	// Abide has entries wait for the holders under the configuration before for as
	// long as a promise of its time may last: the second way.
	Abide bool
	// ExcludeSuspect has grantors tell the leader the members that they suspect, and the leader
	// plan at once without these (section 3.7). It needs a policy that plans.
	ExcludeSuspect bool
	// WaitToRejoin keeps a member that restarted out of the protocol, without a vote
	// or an acknowledgment, until its earlier promises have run out: t_wait of
	// sections 3.7 and 3.8. It is for the host: see [Absent].
	WaitToRejoin bool
}

// Suspicion tells the leader the members that a grantor suspects.
type Suspicion struct{ Members []machine.NodeID }

// promises are one member's.
type promises struct {
	*grantor
	*holder
	ways  Ways
	self  machine.NodeID
	every time.Duration // how often the leader is told of suspects
	good  time.Duration // how long it believes that

	lapsing  bool // no promises until those made before have run out
	former   []*placement.Configuration
	abided   []machine.Mono // until when the former configurations count
	suspects []suspect
	told     machine.Mono // when the leader was told the members that this member suspects
	telling  bool         // and that it was anybody
}

// suspect is a member that a grantor suspects.
type suspect struct {
	by      machine.NodeID
	at      machine.Mono
	members []machine.NodeID
}

// Promises makes a member's promises by these ways, where a tick and an election timeout are
// that long.
func (w Ways) Promises(tick, electionTimeout time.Duration) func(quorumlease.Config, machine.Mono) replica.Promises {
	return func(cfg quorumlease.Config, now machine.Mono) replica.Promises {
		if w.WaitToRejoin {
			cfg.EarlierTTL = 0
		}
		return &promises{
			grantor: newGrantor(cfg, w.Push, now), holder: newHolder(cfg),
			ways: w, self: cfg.Self, every: tick, good: electionTimeout,
		}
	}
}

// Doubt does nothing: in the paper clocks are right.
func (*promises) Doubt(machine.Mono, machine.Mono) {}

// Patience has no end.
func (*promises) Patience() time.Duration { return 1<<62 - 1 }

// Receive takes a message of the paper's protocol.
func (p *promises) Receive(at replica.Standing, from machine.NodeID, body any) (out replica.PromiseEffects) {
	switch m := body.(type) {
	case Suspicion:
		out.Plan = p.suspected(at, from, m.Members)
	case Guard:
		if ack, ok := p.guarded(at.Now, from, m); ok {
			out.Reply = ack
		}
	case Pushed:
		if reply, ok := p.promised(at.Now, from, m, at.Log); ok {
			out.Reply = reply
		}
	case GuardAck:
		p.guardAcked(at.Now, from, m)
		out.Report, out.ReportAt = true, at.Now
	case PromiseReply:
		if took, ok := p.replied(at.Now, from, m); ok {
			out.Answered, out.Took = true, took
			out.Report, out.ReportAt = true, p.Due(at.Now)
		}
	}
	return out
}

// Turn sends guards and promises, and tells of suspects.
func (p *promises) Turn(at replica.Standing) (out replica.PromiseEffects) {
	if p.lapsing {
		holders, _ := p.Holders(at.Now)
		p.lapsing = len(holders) > 0
	}
	for len(p.abided) > 0 && p.abided[0] <= at.Now {
		p.abided, p.former = p.abided[1:], p.former[1:]
	}
	if p.pushes(at) {
		out.Sends = p.grantor.turn(at.Now, p.receivers(at), at.Log)
	}
	if p.ways.ExcludeSuspect {
		p.tell(at, &out)
	}
	return out
}

// pushes reports whether this member makes promises now.
func (p *promises) pushes(at replica.Standing) bool {
	return slices.Contains(at.Members.Newest().Voters, p.self)
}

// receivers are the holders that are to have promises of this member.
func (p *promises) receivers(at replica.Standing) (to []machine.NodeID) {
	if p.lapsing {
		return nil
	}
	newest := at.Members.Newest()
	for _, members := range [][]machine.NodeID{newest.Voters, newest.Learners} {
		for _, id := range members {
			if id != p.self && at.Policy.Asks(id == at.Leader) {
				to = append(to, id)
			}
		}
	}
	return to
}

// Replaced learns that another configuration takes the place of one.
func (p *promises) Replaced(at replica.Standing, before, after *placement.Configuration) {
	p.lapsing = p.lapsing || p.ways.Lapse
	if p.ways.Abide && before != nil && before != after {
		p.abided = append(p.abided, at.Now.Add(quorumlease.Bound(p.ways.Push.Wait())))
		p.former = append(p.former, before)
	}
}

// Former are the configurations of which promises may last.
func (p *promises) Former() []*placement.Configuration { return p.former }

// tell tells the leader the members that this one suspects, again and again; and once that it
// suspects none any more.
func (p *promises) tell(at replica.Standing, out *replica.PromiseEffects) {
	list := p.Suspects()
	if at.Leader == 0 || len(list) == 0 && !p.telling || len(list) > 0 && at.Now < p.told.Add(p.every) {
		return
	}
	p.told, p.telling = at.Now, len(list) > 0
	if at.Leader == p.self {
		out.Plan = p.suspected(at, p.self, list)
		return
	}
	out.Sends = append(out.Sends, replica.Addressed{To: at.Leader, Body: Suspicion{list}})
}

// suspected takes note, at the leader, of the members that a grantor suspects, and reports
// whether that is news, so that it is to plan at once.
func (p *promises) suspected(at replica.Standing, by machine.NodeID, members []machine.NodeID) (news bool) {
	if !p.ways.ExcludeSuspect || at.Leader != p.self {
		return false
	}
	for _, m := range members {
		if !p.Suspected(at.Now, m) {
			news = true
		}
	}
	p.suspects = slices.DeleteFunc(p.suspects, func(s suspect) bool { return s.by == by })
	if len(members) > 0 {
		p.suspects = append(p.suspects, suspect{by, at.Now, members})
	}
	return news
}

// Suspected reports whether a grantor has said so a short while ago.
func (p *promises) Suspected(now machine.Mono, m machine.NodeID) bool {
	return slices.ContainsFunc(p.suspects, func(s suspect) bool {
		return now.Sub(s.at) < p.good && slices.Contains(s.members, m)
	})
}

// Next is when the next turn is needed.
func (p *promises) Next(at replica.Standing) machine.Mono {
	due := machine.Never
	if p.pushes(at) {
		due = p.grantor.Next()
	}
	if p.lapsing {
		due = min(due, p.Due(at.Now))
	}
	if p.telling && at.Leader != 0 { // a new leader is told at once
		due = min(due, p.told.Add(p.every))
	}
	return due
}

// Absent is a machine that stands aside until then: it neither hears others nor is heard.
type Absent struct {
	*replica.Replica
	Self  machine.NodeID
	Until machine.Mono
	now   machine.Mono
}

// Step steps the replica.
func (a *Absent) Step(now machine.Now, input replica.Input) {
	a.now = now.Mono
	a.Replica.Step(now, input)
}

// Receive drops messages of others meanwhile.
func (a *Absent) Receive(now machine.Now, env machine.Envelope) {
	a.now = now.Mono
	if env.From != a.Self && a.now < a.Until {
		return
	}
	a.Replica.Receive(now, env)
}

// Wake implements machine.Machine.
func (a *Absent) Wake(now machine.Now) {
	a.now = now.Mono
	a.Replica.Wake(now)
}

// Ready drops messages for others.
func (a *Absent) Ready() machine.Ready[replica.Outcome] {
	rd := a.Replica.Ready()
	if a.now < a.Until {
		others := func(env machine.Envelope) bool { return env.To != a.Self }
		rd.Sends = slices.DeleteFunc(rd.Sends, others)
		for i := range rd.Persists {
			rd.Persists[i].Then = slices.DeleteFunc(rd.Persists[i].Then, others)
		}
	}
	return rd
}
