package replica

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Promises is the protocol by which members promise each other to wait for them, at one
// member: as a grantor it is bound by promises, as a holder it reads under them. A nil
// [Config].Promises is the product's, by which holders ask. Another protocol has to keep the
// rules of package quorumlease; its effects come back as values.
type Promises interface {
	// Holders are those that this member is bound to now; everyone says that there may be
	// others. Due is when a promise runs out next.
	Holders(now machine.Mono) (holders []quorumlease.Lifetime, everyone bool)
	Due(now machine.Mono) machine.Mono
	// Shortened tells that the log was cut and now ends at last.
	Shortened(last uint64)
	// Doubt tells that this member's clock may have gone ahead of time since then.
	Doubt(since, now machine.Mono)
	// Patience is how long a promise binds a grantor whose holder has stalled.
	Patience() time.Duration

	// Until is when this member's own lease ends.
	Until(quorumlease.Memberships) machine.Mono
	// Reached tells of a log that has grown, or that was vouched for.
	Reached(quorumlease.Log)

	// Turn is called in each turn of the machine, and Receive takes a message, of which a
	// Request is one that may be granted (R21, R23). Next is when the next Turn is needed.
	Turn(Standing) PromiseEffects
	Receive(at Standing, from machine.NodeID, body any) PromiseEffects
	Next(Standing) machine.Mono

	// Replaced tells that the cluster has another configuration. Former returns those of the
	// past whose holders entries still have to wait for.
	Replaced(at Standing, before, after *placement.Configuration)
	Former() []*placement.Configuration
	// Suspected reports whether the leader is to plan without a member.
	Suspected(now machine.Mono, m machine.NodeID) bool
}

// Standing is how a member stands, for its Promises.
type Standing struct {
	Now    machine.Mono
	Leader machine.NodeID // 0: none known
	Log    quorumlease.Log
	// Members are the newest membership, and Policy is what the cluster has decided.
	Members quorumlease.Memberships
	Policy  quorumlease.Policy
	// Wants says that this member is to hold a lease, until Wanted if nobody reads.
	Wants  bool
	Wanted machine.Mono
}

// PromiseEffects are what Promises call for. The zero PromiseEffects are nothing.
type PromiseEffects struct {
	ToVoters any         // for each other voter
	Reply    any         // for the sender of the message
	Sends    []Addressed // for others
	// Answered says that the sender has answered, and took so long.
	Answered bool
	Took     time.Duration
	// Report says that whom this member is bound to will have changed at ReportAt.
	Report   bool
	ReportAt machine.Mono
	Plan     bool // the leader is to plan at once
}

// Addressed is a message for a member.
type Addressed struct {
	To   machine.NodeID
	Body any
}

// asked are promises that holders ask for, while somebody reads there.
type asked struct {
	*quorumlease.Grantor
	*quorumlease.Holder
	cfg    quorumlease.Config
	asking bool // promises to this member may be live
}

func newAsked(cfg quorumlease.Config, now machine.Mono) *asked {
	return &asked{Grantor: quorumlease.NewGrantor(cfg, now), Holder: quorumlease.NewHolder(cfg), cfg: cfg}
}

// Patience is the length of this member's promises.
func (p *asked) Patience() time.Duration { return p.cfg.TTL }

// asks reports whether it is to ask for promises: alone it needs none, and without a
// leader it would get none.
func (p *asked) asks(at Standing) bool {
	return at.Wants && at.Leader != 0 && p.Until(at.Members) != machine.Never
}

// Turn asks for promises or gives them back.
func (p *asked) Turn(at Standing) (out PromiseEffects) {
	switch {
	case p.asks(at) && at.Now >= p.Holder.Next():
		p.asking = true
		out.ToVoters = p.Ask(at.Now)
	case p.asking && !at.Wants:
		p.asking = false
		out.ToVoters = p.GiveUp()
	}
	return out
}

// Receive takes a message.
func (p *asked) Receive(at Standing, from machine.NodeID, body any) (out PromiseEffects) {
	switch m := body.(type) {
	case quorumlease.Request:
		if promise, ok := p.Grant(at.Now, from, m, at.Log); ok {
			out.Reply = promise
		}
	case quorumlease.Promise:
		if sent, ok := p.Sent(m.Seq); ok && m.Boot == p.cfg.Boot {
			out.Answered, out.Took = true, at.Now.Sub(sent)
		}
		p.Promised(from, m, at.Log)
	case quorumlease.Return:
		p.Returned(from, m)
		out.Report, out.ReportAt = true, at.Now
	}
	return out
}

// Next is when the next turn is needed.
func (p *asked) Next(at Standing) machine.Mono {
	due := machine.Never
	if p.asks(at) {
		due = p.Holder.Next()
	}
	if p.asking {
		due = min(due, at.Wanted)
	}
	return due
}

// Replaced does nothing: promises know nothing of keys, and no lease lapses (R12, R13).
func (*asked) Replaced(Standing, *placement.Configuration, *placement.Configuration) {}

// Former are none: configurations that bind are in the log.
func (*asked) Former() []*placement.Configuration { return nil }

// Suspected reports false: stalled holders are given up by the leader (R21).
func (*asked) Suspected(machine.Mono, machine.NodeID) bool { return false }
