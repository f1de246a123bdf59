package replica

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// leadership takes note of a new leader or term.
func (r *Replica) leadership(leader machine.NodeID, term uint64) {
	r.leader, r.term = leader, term
	if leader != 0 {
		r.bereaved = false
	}
	// Whatever was confirmed or asked under the old leader is asked anew.
	r.forwards = nil
	r.proposals.refusal = false
	r.leases.stop()
	r.rounds.reset()
	r.asks.redirect()
	r.outcomes = append(r.outcomes, LeaderChanged{Leader: leader, Term: term})
}

// onDown forgets a leader whose process died, without waiting for an election
// timeout. The members campaign one after the other, lowest ID first, so that
// they do not split the vote; raft's PreVote keeps a mistake harmless.
func (r *Replica) onDown(node machine.NodeID) {
	if node != r.leader || r.leading() {
		return
	}
	if err := r.raft.ForgetLeader(); err != nil {
		return
	}
	r.bereaved = true
	r.campaignAt = r.now.Add(r.cfg.Tick/10 + r.turnAfter(node))
}

// turnAfter is how long this member lets others campaign first.
func (r *Replica) turnAfter(dead machine.NodeID) time.Duration {
	voters := slices.Sorted(slices.Values(r.tail.conf.GetVoters()))
	voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == uint64(dead) })
	return time.Duration(max(0, slices.Index(voters, uint64(r.cfg.ID)))) * r.cfg.Tick / 2
}

func (r *Replica) campaign() {
	if !r.bereaved || r.now < r.campaignAt {
		return
	}
	r.campaignAt = r.now.Add(2*r.cfg.Tick + r.turnAfter(0))
	_ = r.raft.Campaign() // fails only for a leader
}

// handOver passes leadership to the follower that has most of the log.
func (r *Replica) handOver() {
	if !r.leading() {
		return
	}
	var best, match uint64
	r.raft.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if id != uint64(r.cfg.ID) && typ == raft.ProgressTypePeer && pr.RecentActive && pr.Match > match {
			best, match = id, pr.Match
		}
	})
	if best != 0 {
		r.raft.TransferLeader(best)
	}
}

// append puts a batch into the log if this member leads in term, and only then.
func (r *Replica) append(term uint64, entry []byte, requests []Propose) bool {
	st := r.raft.BasicStatus()
	if st.RaftState != raft.StateLeader || st.HardState.GetTerm() != term {
		return false
	}
	if r.tail.sinceSnapshot() > r.cfg.MaxTailBytes {
		return false
	}
	if r.raft.Propose(entry) != nil {
		return false
	}
	r.last++
	r.leases.appended(r.last, requests)
	return true
}

// onForward appends a member's batch, once however often it arrives, or tells
// the member that it was not appended.
func (r *Replica) onForward(from machine.NodeID, m forward) {
	b, err := decodeBatch(m.Entry)
	if err != nil || b.From != from || b.Term != m.Term || b.Seq != m.Seq {
		return // not from one of ours: the log must not be spoiled by it
	}
	if m.Term != r.term || !r.leading() {
		return // the sender finds out by itself that this term is over
	}
	// A batch is for one term, so a leader need remember only its own reign.
	key := asker{from, b.Boot}
	if r.forwards == nil {
		r.forwards = map[asker]*fates{}
	}
	if r.forwards[key] == nil {
		r.forwards[key] = &fates{}
	}
	accepted, known := r.forwards[key].find(m.Seq)
	if !known {
		accepted = r.append(m.Term, m.Entry, b.Requests)
		r.forwards[key].add(m.Seq, accepted)
	}
	if !accepted {
		r.send(from, refused{Boot: b.Boot, Term: m.Term, Seq: m.Seq})
	}
}

// fates remembers what a leader decided about a member's latest batches.
type fates struct {
	order    []uint64
	accepted map[uint64]bool
	floor    uint64 // what is not above was forgotten
}

// rememberedFates is far more than a member has batches on their way.
const rememberedFates = 4096

func (f *fates) find(seq uint64) (accepted, known bool) {
	if seq <= f.floor {
		return true, true // too late to tell: silence, and the sender gives up
	}
	accepted, known = f.accepted[seq]
	return accepted, known
}

func (f *fates) add(seq uint64, accepted bool) {
	if f.accepted == nil {
		f.accepted = map[uint64]bool{}
	}
	f.accepted[seq] = accepted
	f.order = append(f.order, seq)
	if len(f.order) > rememberedFates {
		f.floor = max(f.floor, f.order[0])
		delete(f.accepted, f.order[0])
		f.order = f.order[1:]
	}
}

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
}

// Status returns the Replica's present state. It may be called between steps
// only, by the driver's goroutine.
func (r *Replica) Status() Status {
	st := r.raft.BasicStatus()
	s := Status{
		Leader: machine.NodeID(st.Lead), Term: st.HardState.GetTerm(),
		Commit: st.HardState.GetCommit(), Applied: r.applied, Last: r.tail.last(),
		Learner:   slices.Contains(r.tail.conf.GetLearners(), uint64(r.cfg.ID)),
		TailBytes: r.tail.bytes, Leases: len(r.leases.table), ConfState: r.tail.conf,
		PendingProposals: len(r.proposals.sent), UnansweredLeaseAsk: len(r.asks.own),
	}
	if r.leading() {
		s.Progress = map[machine.NodeID]uint64{}
		r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
			s.Progress[machine.NodeID(id)] = pr.Match
		})
	}
	return s
}
