package replica

import (
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// news is what goes with the leader's messages.
func (rl *readLeases) news(r *Replica) quorumlease.News {
	return rl.order().tells(rl.positions, quorumlease.News{Term: r.term, Released: rl.released, Stalled: rl.stalled})
}

// carries adds the leader's news to one of raft's messages, if it is such a one that
// the leader sends.
func (rl *readLeases) carries(r *Replica, m *raftpb.Message) any {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat:
		rl.telling(machine.NodeID(m.GetTo()))
		return announced{Message: m, News: rl.news(r)}
	}
	return m
}

// telling notes that a member is being told.
func (rl *readLeases) telling(m machine.NodeID) {
	if rl.told == nil {
		rl.told = map[machine.NodeID]uint64{}
	}
	rl.told[m] = rl.version
}

// announce tells those of the others what was released that no message of raft's has
// told.
func (rl *readLeases) announce(r *Replica) {
	if !r.leading() {
		return
	}
	for _, m := range rl.everyone {
		if m != r.cfg.ID && rl.told[m] != rl.version {
			rl.telling(m)
			r.send(m, rl.news(r))
		}
	}
}
