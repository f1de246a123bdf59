package node

import (
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Figures are counts and sizes for metrics.
type Figures struct {
	LeaderChanges uint64 // times that this member learned of another leader
	Failed        uint64 // requests whose outcome this member did not learn in time
	Slow          uint64 // entries that took longer to apply than Config.WarnApply
	Pending       int    // requests that wait for their outcome
	PendingBytes  int64
	Counts        *kv.Counts // goes on counting
}

// Figures returns the present ones.
func (n *Node) Figures() Figures {
	return Figures{
		LeaderChanges: n.leaderChanges.Load(), Failed: n.failed.Load(), Slow: n.slow.Load(), Counts: &n.counts,
		Pending: n.results.number(), PendingBytes: n.results.cost.Load(),
	}
}

// PeerStats are those of the connection to another member.
func (n *Node) PeerStats(id uint64) peer.Stats {
	if n.peers == nil {
		return peer.Stats{}
	}
	return n.peers.Stats(machine.NodeID(id))
}
