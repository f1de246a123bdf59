package flease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// errEarly has a list wait for the one before it. It is not logged.
var errEarly = errors.New("another list waits")

// followMembers takes the lists that the Membership returns.
func (p *Peer) followMembers() {
	known, told := p.Members(), ""
	for p.ctx.Err() == nil {
		m, err := p.cfg.Membership(p.ctx, known)
		if err == nil {
			err = p.offer(m)
		}
		if err == nil {
			known, told = m, ""
			p.advance()
			continue
		}
		if now := err.Error(); p.ctx.Err() == nil && now != told && !errors.Is(err, errEarly) {
			p.cfg.Logger.Error("flease: the members stay as they are", "error", err)
			told = now
		}
		select {
		case <-p.ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// offer stores a list as the next one, or says why it cannot be. A new list of the same epoch
// replaces one that waits.
func (p *Peer) offer(m Members) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	switch known, active := p.members, p.activeEpoch.Load(); {
	case p.later.Epoch != 0 && m.Epoch == p.later.Epoch+1:
		err = errEarly
	case known.Epoch < m.Epoch && known.Epoch < active && m.Epoch <= active+1:
		// The views between came from other peers, and were compared with this list.
		if err = m.check(); err == nil {
			err = known.stay(m)
		}
	default:
		err = known.checkNext(m)
	}
	if err != nil {
		return err
	}
	p.later = m
	return nil
}

// advance begins the change to the list that waits, if the view before is active. Before that,
// leases of its cells may be held that no peer of the next view knows of.
func (p *Peer) advance() {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.mu.Lock()
	known, next := p.members, p.later
	due, behind := next.Epoch != 0 && p.activeEpoch.Load() >= next.Epoch-1, false
	if due {
		p.members, p.before, p.later, p.passed = next, known.Addrs, Members{}, false
		if next.Epoch != known.Epoch+1 {
			p.before, p.passed = next.Was, next.Was == nil
			// Records may have been acknowledged under lists that this peer has not gone by.
			behind = p.shelf.miss()
		}
	}
	p.mu.Unlock()
	if !due {
		return
	}
	// Until the next view is active, the peer needs the old members and the new ones.
	all := known.all()
	maps.Copy(all, next.all())
	p.setPeers(all)
	if behind {
		p.spawn(p.recollect)
	}
	p.cfg.Logger.Info("flease: the members change", "from", known.String(), "to", next.String())
	p.driver.Step(flease.ChangeView{View: next.view(p.cfg.Replicas)})
	p.settle()
}

// active is called when a view is complete. A list that waits for it comes next.
func (p *Peer) active(v flease.View) {
	if !slices.Contains(v.Members, p.self) {
		p.fail(fmt.Errorf("peer %d (%s) is no member any more since epoch %d", p.self, p.cfg.Self, v.Epoch))
		return
	}
	p.changing.Lock()
	p.settle()
	p.changing.Unlock()
	p.advance()
}

// settle ends the streams to peers that are not in the active view.
func (p *Peer) settle() {
	if m := p.Members(); m.Epoch == p.activeEpoch.Load() {
		p.setPeers(m.Addrs)
	}
}

func (p *Peer) setPeers(all map[machine.NodeID]string) {
	if err := p.transport.SetPeers(all, nil); err != nil && p.ctx.Err() == nil {
		p.cfg.Logger.Error("flease: set the peers", "error", err)
	}
}
