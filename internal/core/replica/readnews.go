package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// bulletin is what the leader tells the others, beside what is released.
type bulletin struct {
	// Holders that get no more promises, as the leader of that term said last.
	stalled     []machine.NodeID
	stalledTerm uint64
	// version changes with what is released; told is which one each of the others was
	// told of.
	version uint64
	told    map[machine.NodeID]uint64
}

// named takes the leader's word for which holders get no more promises.
func (b *bulletin) named(m quorumlease.News) {
	if m.Term >= b.stalledTerm {
		b.stalled, b.stalledTerm = m.Stalled, m.Term
	}
}

// givenUp reports whether the leader of a term has given a holder up (R21).
func (b *bulletin) givenUp(m machine.NodeID, term uint64) bool {
	return slices.Contains(b.stalled, m) && b.stalledTerm == term
}

// telling notes that a member is being told.
func (b *bulletin) telling(m machine.NodeID) {
	if b.told == nil {
		b.told = map[machine.NodeID]uint64{}
	}
	b.told[m] = b.version
}

// news returns what goes with the leader's messages.
func (rl *readLeases) news(at moment) quorumlease.News {
	return rl.order().addNews(rl.positions, quorumlease.News{Term: at.term, Released: rl.released, Stalled: rl.stalled})
}

// attachNews adds the leader's news to one of raft's messages, if it is such a one that
// the leader sends.
func (rl *readLeases) attachNews(at moment, m *raftpb.Message) any {
	switch m.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat:
		rl.telling(machine.NodeID(m.GetTo()))
		return announced{Message: m, News: rl.news(at)}
	}
	return m
}

// announce tells those of the others what was released that no message of raft's has
// told.
func (rl *readLeases) announce(at moment, eff *effects) {
	if !at.leading() {
		return
	}
	for _, m := range rl.everyone {
		if m != at.cfg.ID && rl.told[m] != rl.version {
			rl.telling(m)
			eff.send(m, rl.news(at))
		}
	}
}
