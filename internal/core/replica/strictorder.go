package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// strictOrder releases entries in the order of the log. A holder holds all keys, and applying
// is what waits: all that is applied may be seen.
type strictOrder struct{ *revealed }

var _ visibility = strictOrder{}

func (strictOrder) appended(*raftpb.Entry) account { return account{} }

func (strictOrder) truncated(uint64, uint64) {}

// committed lets the Applier have what is released.
func (strictOrder) committed(at positions, _ bool) (upTo uint64, held bool) {
	return at.released, false
}

func (s strictOrder) reported(at positions, _ reports) (out Released, ok bool) {
	s.through = max(s.through, min(at.released, at.applied))
	return out, false
}

// mayRead answers from the whole applied state, for in strict order all of it is released.
func (s strictOrder) mayRead(at reading) []KeysReady {
	s.ready = s.ready[:0]
	s.reads = slices.DeleteFunc(s.reads, func(q *keyRead) bool {
		if !q.known && at.now < at.until && !at.unsettled {
			q.need, q.known = at.last, true
		}
		if !q.known || q.need > at.handedOut {
			return at.now.Sub(q.since) > at.patience
		}
		s.ready = append(s.ready, KeysReady{ID: q.ID, Index: q.need, UpTo: at.handedOut, Local: !q.committed, Exact: q.together})
		return true
	})
	return s.ready
}

func (strictOrder) visible(applied uint64) uint64 { return applied }

// releasedHere returns what is committed of it: the leader may have told of more, and it may
// replace what is not committed here.
func (strictOrder) releasedHere(at positions) uint64 { return min(at.released, at.committed) }

func (strictOrder) hidesSome(positions) bool { return false }

func (strictOrder) addNews(_ positions, news quorumlease.News) quorumlease.News { return news }

func (strictOrder) lacking(at positions, l *quorumlease.Ledger) []machine.NodeID {
	return l.Lacking(at.committed, func(machine.NodeID) bool { return true })
}
