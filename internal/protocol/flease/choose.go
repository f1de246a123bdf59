package flease

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// chosen is the middle of GetLease (Algorithms 3 and 4), after a majority has answered the
// READ.
func (p *Peer) chosen(a int32) {
	at := &p.attempts[a]
	i := at.claim
	c := &p.claims[i]
	if at.aim != looking {
		p.trace(ReadCommit, a)
	}
	switch {
	case c.watches:
		p.report(Observed{ID: c.id, State: p.state(c, at, at.waiting)})
		p.drop(i)
	case c.phase == releasing:
		p.handBack(a)
	case at.aim == renewing:
		p.prolong(a)
	case at.aim == looking:
		if p.admissible(a, nil) {
			p.abandon(a)
			p.requeue(i)
			return
		}
		p.wait(a)
	default:
		p.contend(a)
	}
}

// contend proposes our lease if the register has none that keeps us out.
func (p *Peer) contend(a int32) {
	at := &p.attempts[a]
	i := at.claim
	c := &p.claims[i]
	var others Value
	if p.admissible(a, &others) {
		c.token = at.k // a new tenure has a new token, even after one of ours (F-5)
		p.propose(a, append(others, Holding{
			Token: at.k, Until: at.exp, Holder: c.holder, Incarnation: p.cfg.Incarnation,
			Delay: c.delay, Slots: c.slots, Owner: uint16(p.cfg.Self),
		}))
		return
	}
	if c.decide {
		at.back = true
		p.propose(a, at.value)
		return
	}
	p.yield(a)
}

// yield is the end of an attempt that others keep out.
func (p *Peer) yield(a int32) {
	at := &p.attempts[a]
	i := at.claim
	c := &p.claims[i]
	if c.try {
		p.report(Refused{ID: c.id, State: p.state(c, at, at.waiting)})
		p.drop(i)
		return
	}
	p.wait(a)
}

// keptOut handles answers of a majority of which some made no promise, because by their
// knowledge a lease keeps the claim out. All answers together may show more: the lease may
// be released, or be an ended one of ours. Then the claim insists on promises.
func (p *Peer) keptOut(a int32) {
	i := p.attempts[a].claim
	if !p.admissible(a, nil) {
		p.yield(a)
		return
	}
	p.abandon(a)
	p.claims[i].insists = true
	p.begin(i, acquiring)
}

// admissible reports whether the claim may be proposed, and gathers the holdings beside it.
func (p *Peer) admissible(a int32, others *Value) bool {
	at := &p.attempts[a]
	c := &p.claims[at.claim]
	var adm admission
	n := 0
	for j := range at.value {
		h := &at.value[j]
		if !p.keepsOthersOut(c.cell, h) {
			continue // over: released, or expired at all clocks, or ours and given up
		}
		adm.hold(h.Slots)
		n++
		if others != nil {
			*others = append(*others, *h)
		}
	}
	if !adm.admits(c.slots) || n >= MaxHoldings {
		c.yielded = 0
		return false
	}
	heir := p.heir(at.value)
	if heir == p.cfg.Self {
		return true
	}
	// From here on it is courtesy: to an heir, and to earlier claims.
	polite, blocked := heir != 0, false
	for j, w := range at.queue {
		if c.ticket != 0 && w.Ticket >= c.ticket && c.lined || polite {
			break
		}
		polite = !adm.admits(w.Slots)
		blocked = polite && j == 0
		adm.hold(w.Slots)
	}
	switch {
	case !polite && adm.admits(c.slots):
		return true
	case blocked:
		// The first in the line waits for the holders, as a writer for readers. Readers
		// that overtook it would keep it waiting for ever.
		c.yielded = 0
	case c.yielded == 0:
		c.yielded = p.now.Mono
	case p.now.Mono.Sub(c.yielded) > 4*p.cfg.poll():
		return true // they could, and do not: they are cut off, or have too much to do
	}
	return false
}

// wait schedules the claim's next look: when another peer tells it, when the last lease in
// its way is over at all clocks, or after a while. Each look also keeps its place in the
// line.
func (p *Peer) wait(a int32) {
	at := p.attempts[a]
	i := at.claim
	p.abandon(a)
	c := &p.claims[i]
	c.phase, c.tries = waiting, 0
	s := p.state(c, &at, at.waiting)
	var first Ballot
	if len(s.Holdings) > 0 {
		first = s.Holdings[0].Token
	}
	if first != c.shown || !c.lined || c.alone {
		c.shown, c.alone = first, false
		p.report(Waits{ID: c.id, State: s})
	}
	if !c.lined {
		p.look(i) // so that later claims see us
		return
	}
	again := p.now.Mono.Add(p.cfg.poll()*3/4 + p.rand(p.cfg.poll()/4))
	for j := range s.Holdings {
		// Before λ.t + ε its owner may still believe in it: the safety period of Algorithm
		// 4. We do not sleep with the ballot in hand: it would be stale by then.
		if ends := s.Holdings[j].Until + p.eps; ends > p.c {
			again = min(again, p.now.Mono.Add((ends - p.c).duration()))
		}
	}
	p.wheel.set(i, again)
}

// look makes a waiting claim look, if not too many claims do.
func (p *Peer) look(i int32) {
	if p.looks >= p.cfg.MaxAttempts {
		p.wheel.set(i, p.now.Mono.Add(time.Millisecond+p.rand(p.cfg.poll())))
		return
	}
	p.begin(i, looking)
}

// prolong is the renewal (Algorithm 3).
func (p *Peer) prolong(a int32) {
	at := &p.attempts[a]
	i := at.claim
	c := &p.claims[i]
	if p.over(c) {
		p.end(i, "it was not renewed in time")
		return
	}
	v, found := p.replaced(a, func(h *Holding) { h.Until = at.exp })
	if !found {
		// Nobody may have taken it before its end, by our clock: a clock is wrong.
		p.end(i, "the register does not show it any more")
		return
	}
	p.propose(a, v)
}

// replaced returns the value that was read, with our own holding changed and expired ones
// left out.
func (p *Peer) replaced(a int32, change func(*Holding)) (v Value, found bool) {
	at := &p.attempts[a]
	c := &p.claims[at.claim]
	v = make(Value, 0, len(at.value))
	for j := range at.value {
		switch h := &at.value[j]; {
		case h.Token == c.token && machine.NodeID(h.Owner) == p.cfg.Self && h.Incarnation == p.cfg.Incarnation:
			found = !h.Released
			v = append(v, *h)
			change(&v[len(v)-1])
		case !p.keepsOthersOut(c.cell, h):
		default:
			v = append(v, *h)
		}
	}
	return v, found
}

// learn takes a hint that our turn may have come.
func (p *Peer) learn(o *Op) {
	at, ok := p.names[o.Name]
	if !ok || o.Ticket == 0 {
		return
	}
	for i := p.cells[at].claims; i >= 0; i = p.claims[i].next {
		c := &p.claims[i]
		if c.ticket != o.Ticket || c.phase != waiting {
			continue
		}
		if c.att >= 0 {
			p.abandon(c.att)
		}
		p.requeue(i)
		return
	}
}

// quitLine withdraws a claim's ticket.
func (p *Peer) quitLine(i int32) {
	c := &p.claims[i]
	c.lined = false
	if p.silent() {
		return
	}
	op := Op{Kind: Quit, Name: p.cells[c.cell].name, Ticket: c.ticket}
	for _, m := range p.lay.cells[p.cells[c.cell].slot].members {
		p.send(m, patient, op)
	}
}
