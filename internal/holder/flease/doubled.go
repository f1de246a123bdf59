package flease

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// doubled is called when another peer says that a second process has this peer's index. Two
// processes that promise as one peer could let a lease have two holders. So the one that is not at
// the peer's address has to end.
//
// This process ends if another answers at that address, or if most of the others say the same. It
// does not end on the word of one, which may be mistaken or not even that peer.
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
	if p.noteFault(by, err) {
		p.cfg.Logger.Error("flease: "+err.Error(), "peer", by)
	}
}

// displaced reports whether another process answers as this peer at this peer's address.
func (p *Peer) displaced() bool {
	said, err := peer.Ask(p.ctx, p.cfg.Self, p.cfg.TLS, p.cfg.Dial, nil)
	var there terms
	return err == nil && json.Unmarshal(said, &there) == nil &&
		there.Cluster == p.cfg.Cluster && there.Self == p.self && there.Life != p.pure.Incarnation
}

// letIn notes that a peer has accepted a connection of this process.
func (p *Peer) letIn(by machine.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.twice, by)
}
