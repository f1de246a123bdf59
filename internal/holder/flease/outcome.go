package flease

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// handle takes the machine's reports, on the goroutine that steps it.
func (p *Peer) handle(outs []flease.Report) {
	now := p.cfg.clocks()
	for _, out := range outs {
		switch out := out.(type) {
		case flease.Renewed:
			if x := p.claim(out.ID, false); x != nil {
				x.renewed(now, out)
			}
		case flease.Acquired:
			if x := p.claim(out.ID, false); x != nil {
				x.acquired(out)
			}
		case flease.Waits:
			if x := p.claim(out.ID, false); x != nil {
				s := stateOf(x.Name(), out.State)
				x.noteHolders(&s)
			}
		case flease.Refused:
			if x := p.claim(out.ID, true); x != nil {
				x.over(verdict(x.Name(), out), nil)
			}
		case flease.Lost:
			if x := p.claim(out.ID, true); x != nil {
				x.over(fmt.Errorf("%w: %s", tenure.ErrLost, out.Why), nil)
			}
		case flease.Released:
			if x := p.claim(out.ID, true); x != nil {
				x.over(errReleased, &out)
			}
		case flease.Observed:
			p.observed(out)
		default:
			p.handleNews(out)
		}
	}
}

// claim finds a claim, and drops it if it is over.
func (p *Peer) claim(id uint64, over bool) *claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.claims[id]
	if over {
		delete(p.claims, id)
		if p.most > 4096 && len(p.claims) < p.most/4 { // a map of Go never shrinks
			p.claims, p.most = maps.Collect(maps.All(p.claims)), len(p.claims)
		}
	}
	return x
}

func (p *Peer) observed(o flease.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.looks[o.ID]; c != nil {
		delete(p.looks, o.ID)
		c <- o
	}
}

// noteHolders notes the holders in the way of a claim.
func (x *claim) noteHolders(s *tenure.State) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen = s
}

// acquired begins the tenure. A caller that gave up meanwhile has told the machine.
func (x *claim) acquired(a flease.Acquired) {
	if x.Begin(a.Token, a.Deadline, a.Until) {
		x.noteHolders(nil)
		x.Decide(nil)
	}
}

// renewed extends the tenure, unless it has ended: a holder that has seen its deadline pass has
// stopped for good. Others then wait as if the holder had died, lock delay included.
func (x *claim) renewed(now machine.Now, r flease.Renewed) {
	p := x.leaser.peer
	left := x.LeftAt(now)
	if x.ExtendAt(now, r.Deadline, r.Until) {
		p.renewals.note(x.ttl, x.ttl-guard(p.cfg.Guard, x.ttl)-left)
		x.mu.Lock()
		defer x.mu.Unlock()
		select {
		case x.moved <- struct{}{}:
		default: // if moved is nil, too
		}
	} else if errors.Is(x.Err(), tenure.ErrLost) {
		time.AfterFunc(x.delay, x.GiveBack)
	}
}

// errReleased is the end of a claim that the machine has dropped.
var errReleased = fmt.Errorf("%w by its holder", tenure.ErrReleased)

// over is the end of the claim at the machine.
func (x *claim) over(why error, r *flease.Released) {
	x.Decide(x.End(why))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone = r; r == nil {
		x.gone = &flease.Released{ID: x.id}
	}
	if x.freed != nil {
		close(x.freed)
	}
}

// abandon ends all claims of a peer that has ended.
func (p *Peer) abandon(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, x := range p.claims {
		delete(p.claims, id)
		if x.Begun() {
			x.over(lostWith(why), nil)
		} else {
			x.over(ended(why), nil)
		}
	}
}

// lostWith is the end of a tenure whose peer has ended.
func lostWith(why error) error {
	if errors.Is(why, tenure.ErrClosed) { // its words are about a later call
		return fmt.Errorf("%w: the peer that it was held through was closed", tenure.ErrLost)
	}
	return fmt.Errorf("%w: the peer has ended: %w", tenure.ErrLost, why)
}

// handleNews takes a report about the peer, and no claim.
func (p *Peer) handleNews(out flease.Report) {
	log := p.cfg.Logger
	switch out := out.(type) {
	case flease.Serving:
		p.mu.Lock()
		p.serving = true
		p.mu.Unlock()
		log.Info("flease: the peer serves", "peer", p.self)
	case flease.Quarantined:
		p.mu.Lock()
		p.serving, p.silent = false, out
		p.mu.Unlock()
		now := p.cfg.clocks()
		log.Info("flease: the peer is silent until its earlier promises have run out", "peer", p.self, "for", out.Deadline.Sub(now.Mono))
	case flease.Active:
		log.Info("flease: the view is active", "peer", p.self, "epoch", out.View.Epoch)
		p.activeEpoch.Store(out.View.Epoch)
		p.spawn(func() { p.active(out.View) })
	case flease.Snapshot:
		p.snapshot <- out.Record
	case flease.Alarm:
		log.Warn("flease: "+out.Kind.String(), "peer", p.self, "about", out.Peer, "by", out.By, "why", out.Why)
		switch out.Kind {
		case flease.Disagreement:
			p.spawn(func() { p.compare(out.Peer, nil) })
		case flease.Skew:
			p.noteFault(out.Peer, fmt.Errorf("the clock of peer %d, or ours, is wrong by more than ε, about %v: synchronize them", out.Peer, out.By))
		}
	}
}
