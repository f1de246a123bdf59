package flease

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// doubled takes another peer's word that its connections are with another process of this
// peer's index. Two that promise as one could let a lease have two holders, so one of them has
// to end: the one that is not at the peer's address. This one is that if another answers
// there, or if most of the others say so. On the word of one it does not end: that one may be
// mistaken, or somebody else may be at its address.
func (p *Peer) doubled(by machine.NodeID, reason error) {
	p.mu.Lock()
	if p.twice == nil {
		p.twice = map[machine.NodeID]bool{}
	}
	p.twice[by] = true
	others, say := 0, 0
	for id := range p.members.Addrs {
		if id != p.self {
			others++
		}
		if p.twice[id] {
			say++
		}
	}
	p.mu.Unlock()
	if 2*say > others || p.displaced() {
		p.fail(fmt.Errorf("another process runs as peer %d (%s): end one of the two, or give this one an address and an index of its own: %w", p.self, p.cfg.Self, reason))
		return
	}
	err := errors.New("it says that another process runs as this peer, and neither the others nor the one at this peer's address say so")
	if p.hears(by, err) {
		p.cfg.Logger.Error("flease: "+err.Error(), "peer", by)
	}
}

// displaced asks at this peer's address whether another process is there in its place.
func (p *Peer) displaced() bool {
	said, err := peer.Ask(p.ctx, p.cfg.Self, p.cfg.TLS, p.cfg.Dial, nil)
	var there terms
	return err == nil && json.Unmarshal(said, &there) == nil &&
		there.Cluster == p.cfg.Cluster && there.Self == p.self && there.Life != p.pure.Incarnation
}

// letIn takes note that a peer has taken this one's connection.
func (p *Peer) letIn(by machine.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.twice, by)
}
