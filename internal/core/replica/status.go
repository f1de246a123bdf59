package replica

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Status is a moment's view of a Replica, for people.
type Status struct {
	Leader             machine.NodeID
	Term               uint64
	Commit, Applied    uint64
	Last               uint64
	Learner            bool
	TailBytes          int
	Leases             int
	Progress           map[machine.NodeID]uint64 // each member's durable index, at the leader
	ConfState          *raftpb.ConfState
	PendingProposals   int
	UnansweredLeaseAsk int
	Renewals, Expired  uint64            // of leases, by this member as the leader
	Promoted           uint64            // learners that got a vote, while this member led
	Unpromoted         map[string]uint64 // and those that it refused one, by the reason; nil: none
	ReadLeases         ReadLeaseStatus
}

// Status returns the Replica's present state. It may be called between steps
// only, by the driver's goroutine.
func (r *Replica) Status() Status {
	st := r.raft.BasicStatus()
	s := Status{
		Leader: machine.NodeID(st.Lead), Term: st.HardState.GetTerm(),
		Commit: st.HardState.GetCommit(), Applied: r.visible, Last: r.tail.last(),
		Learner:   slices.Contains(r.tail.conf.GetLearners(), uint64(r.cfg.ID)),
		TailBytes: r.tail.bytes, Leases: len(r.leases.table), ConfState: r.tail.conf,
		PendingProposals: len(r.proposals.sent), UnansweredLeaseAsk: len(r.asks.own),
		Renewals: r.leases.renewals, Expired: r.leases.expired,
		Promoted: r.promotions.done, Unpromoted: r.promotions.reasons(),
		ReadLeases: r.reads.status(r.moment),
	}
	if r.leading() {
		s.Progress = map[machine.NodeID]uint64{}
		r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			s.Progress[machine.NodeID(id)] = pr.Match
		})
	}
	return s
}

// ReadLeaseStatus is what a member knows of read leases, for people.
type ReadLeaseStatus struct {
	Policy   quorumlease.Policy
	Cells    *placement.Configuration // the holders of keys; nil: each member with promises holds all
	TTL      time.Duration            // of this member's promises
	Left     time.Duration            // of this member's lease; 0: it has none, negative: it needs none to last
	Released uint64                   // up to where the log is released, as far as is known here
	Held     int                      // entries that are committed and not released
	HeldFor  time.Duration            // for how long the first of them has been committed, as far as is known here
	// WaitsFor are, at the leader, members that lack some of them of which they hold keys,
	// while a voter is bound to them.
	WaitsFor []machine.NodeID
	Bound    []quorumlease.Lifetime // whom this member has promised to wait for
	// At the leader, as reported: which members are bound to which, and which get no more promises.
	Holdings []quorumlease.Holding
	Stalled  []machine.NodeID
}

func (rl *readLeases) status(at moment) ReadLeaseStatus {
	s := ReadLeaseStatus{Policy: rl.setting.policy, Cells: rl.setting.cells, TTL: rl.cfg.TTL, Released: rl.released, Held: len(rl.held)}
	if until := rl.until(at); until == machine.Never {
		s.Left = -1
	} else {
		s.Left = max(0, until.Sub(at.now))
	}
	if rl.keys.on {
		_, held := rl.keys.held(rl.committed)
		s.Released, s.Held = rl.keys.through, len(held)
	}
	if s.Held > 0 {
		s.HeldFor = rl.waits.since(at.now)
	}
	s.Bound, _ = rl.promises.Holders(at.now)
	if at.leading() {
		s.Holdings, s.Stalled = rl.ledger.Holdings(), slices.Clone(rl.stalled)
		if s.Held > 0 {
			s.WaitsFor = rl.order().lacking(rl.positions, &rl.ledger)
		}
	}
	return s
}
