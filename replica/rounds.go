package replica

import (
	"bytes"

	"github.com/tenure-lease/tenure/machine"
	"go.etcd.io/raft/v3"
)

// rounds confirms leadership for linearizable reads and for lease asks, many
// at a time. A round covers only what arrived before it began. It has a fresh
// ID each time it is tried, and rounds in flight are dropped when the leader
// changes, so that no answer of the past is taken for the present.
type rounds struct {
	id     uint64 // of the next round
	wanted uint64 // highest Read asked for
	done   uint64 // highest Read answered
	flying []round
}

type round struct {
	id    uint64
	reads uint64 // covers Reads up to this number
	asks  []askBatch
	since machine.Mono
}

// maxRounds in flight: one is being confirmed while the next sets out, so
// that a busy leader is never idle for want of a confirmation.
const maxRounds = 2

func (rs *rounds) want(number uint64) { rs.wanted = max(rs.wanted, number) }

func (rs *rounds) reset() { rs.flying = nil }

func (rs *rounds) turn(r *Replica) {
	if r.leader == 0 || len(rs.flying) >= maxRounds {
		return
	}
	// A new leader does not know what was committed before it has committed an
	// entry of its own term. Raft itself makes an exception for a group of one,
	// which after a restart would answer with the commit index of its last
	// hard state: older than what it has acknowledged.
	if r.leading() && r.appliedTerm != r.term {
		return
	}
	covered := rs.done
	for _, f := range rs.flying {
		covered = max(covered, f.reads)
	}
	if rs.wanted <= covered && len(r.asks.inbox) == 0 {
		return
	}
	rs.flying = append(rs.flying, round{id: rs.id, reads: rs.wanted, asks: r.asks.inbox, since: r.now})
	r.asks.inbox = nil
	r.raft.ReadIndex(r.readContext(rs.id))
	rs.id++
}

// confirmed takes raft's word that this member's leader was the leader after
// the round began, and that nothing later than Index was answered before.
func (rs *rounds) confirmed(r *Replica, st raft.ReadState) {
	n := -1
	for i, f := range rs.flying {
		if bytes.Equal(st.RequestCtx, r.readContext(f.id)) {
			n = i
		}
	}
	if n < 0 {
		return
	}
	// The index of a later round serves the earlier ones as well.
	for _, f := range rs.flying[:n+1] {
		for _, b := range f.asks {
			b.index = st.Index
			r.asks.confirmed = append(r.asks.confirmed, b)
		}
		if f.reads > rs.done {
			rs.done = f.reads
			r.outcomes = append(r.outcomes, ReadReady{Number: f.reads, Index: st.Index})
		}
	}
	rs.flying = append([]round(nil), rs.flying[n+1:]...)
	r.asks.settle(r)
}

// onTick gives up rounds whose messages seem lost, so that fresh ones set out.
func (rs *rounds) onTick(r *Replica) {
	if len(rs.flying) == 0 || r.now.Sub(rs.flying[0].since) < r.cfg.electionTimeout()/2 {
		return
	}
	for _, f := range rs.flying {
		r.asks.inbox = append(r.asks.inbox, f.asks...)
	}
	rs.flying = nil
}
