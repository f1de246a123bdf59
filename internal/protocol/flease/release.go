package flease

import "github.com/tenure-lease/tenure/internal/machine"

// release ends a claim for its caller. From here on it is never held again, so any peer
// that hears of the release, in whatever order, may take the resource.
func (p *Peer) release(id uint64, heir machine.NodeID) {
	i, ok := p.byID[id]
	if !ok {
		return // it was lost, or refused, meanwhile: that was its last outcome
	}
	c := &p.claims[i]
	if c.phase == releasing {
		return
	}
	c.heir = uint16(heir)
	if c.wrote == 0 || c.watches {
		p.report(Released{ID: id, Confirmed: true})
		p.drop(i)
		return
	}
	if c.phase != held {
		// Its WRITE may yet be decided. Nobody would hold it, and all would wait.
		c.token, c.until = c.wrote, c.wrote.Time()+p.tmax
	}
	c.phase, c.tries = releasing, 0
	if c.lined {
		p.quitLine(i)
	}
	if c.att >= 0 {
		if p.attempts[c.att].stage == reading && p.attempts[c.att].aim == renewing {
			// Acceptors that have promised the renewal's ballot refuse the one of the last
			// WRITE. So the renewal goes on, and writes the release (F-4).
			return
		}
		p.abandon(c.att)
	}
	p.giveBack(i)
}

// giveBack writes the release: under the ballot of the last WRITE if nobody has
// refused that yet, so that it takes one round, else under a new one, which takes two.
func (p *Peer) giveBack(i int32) {
	c := &p.claims[i]
	switch {
	case p.c >= c.until+p.eps: // it is over for everybody
		p.end(i, "")
		return
	case c.wrote == 0:
		p.begin(i, returning)
		return
	case p.silent():
		p.wheel.set(i, p.now.Mono.Add(p.cfg.poll()))
		return
	}
	a := p.newAttempt(i, returning)
	at := &p.attempts[a]
	at.k = c.wrote
	v := append(Value(nil), c.value...)
	for j := range v {
		if v[j].Token == c.token && machine.NodeID(v[j].Owner) == p.cfg.Self {
			p.giveUp(c, &v[j])
		}
	}
	p.propose(a, v)
}

// handBack is the second round of a release under a new ballot.
func (p *Peer) handBack(a int32) {
	at := &p.attempts[a]
	c := &p.claims[at.claim]
	*p.under(at.aim, c)-- // it gives its turn back
	at.aim = returning
	*p.under(at.aim, c)++
	// It is written even if our holding is not there any more, or is released already: that
	// may be known to a minority, and a majority of others may still show the lease.
	v, _ := p.replaced(a, func(h *Holding) { p.giveUp(c, h) })
	p.propose(a, v)
}

// giveUp marks our holding. An heir may come first for two rounds.
func (p *Peer) giveUp(c *claim, h *Holding) {
	h.Released = true
	if c.heir != 0 {
		h.Heir, h.Until = c.heir, min(h.Until, p.c+millis(2*p.cfg.RoundTimeout))
	}
}
