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
	LateBeats     uint64 // heartbeats that this member, as the leader, sent late
	SlowReads     uint64 // questions for linearizable reads that a leader did not answer in time
	FailedReads   uint64 // and those that had no answer because there was no leader, or another one
	Restoring     bool   // a snapshot that a leader sent is being read
	Pending       int    // requests that wait for their outcome
	PendingBytes  int64
	Counts        *kv.Counts // goes on counting
}

// Figures returns the present ones.
func (n *Node) Figures() Figures {
	return Figures{
		LeaderChanges: n.leaderChanges.Load(), Failed: n.failed.Load(), Slow: n.slow.Load(), Counts: &n.counts,
		Pending: n.results.number(), PendingBytes: n.results.cost.Load(),
		LateBeats: n.heartbeats.late.Load(), SlowReads: n.slowReads.Load(), FailedReads: n.failedReads.Load(), Restoring: n.restoring.Load(),
	}
}

// PeerStats are those of the connection to another member.
func (n *Node) PeerStats(id uint64) peer.Stats {
	if n.peers == nil {
		return peer.Stats{}
	}
	return n.peers.Stats(machine.NodeID(id))
}
