package replica

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// leadership is what a leader knows in its term, of the others.
type leadership struct {
	since    machine.Mono // when it began
	levels   levels
	forwards map[asker]*fates
}

// candidacy is how this member comes to campaign.
type candidacy struct {
	// bereaved is set after the leader's process died, until there is another;
	// campaignAt is when this member tries to become that, and patience is how long it
	// waits for the outcome.
	bereaved   bool
	campaignAt machine.Mono
	patience   time.Duration
}

// follow takes note of a new leader or term.
func (r *Replica) follow(leader machine.NodeID, term uint64) {
	fresh := term != r.term
	r.leader, r.term, r.begun = leader, term, 0
	r.reads.newLeader(r.moment, fresh)
	if leader != 0 {
		r.bereaved = false
	}
	// Everything that was confirmed or asked under the old leader is asked anew.
	r.leadership = leadership{since: r.now, levels: levels{}}
	r.proposals.refusal = false
	r.leases.stop(r.moment)
	r.rounds.reset()
	r.reads.keys.again(r.reads.committed)
	r.asks.redirect()
	r.outcomes = append(r.outcomes, LeaderChanged{Leader: leader, Term: term})
}

// onDown forgets a leader whose process died, without waiting for an election
// timeout. The members campaign one after the other, lowest ID first, so that
// they do not split the vote; raft's PreVote keeps a mistake harmless.
func (r *Replica) onDown(node machine.NodeID) {
	// Raft may know of another leader than was last reported.
	if uint64(node) != r.raft.BasicStatus().Lead || node == r.cfg.ID {
		return
	}
	if err := r.raft.ForgetLeader(); err != nil {
		return
	}
	r.bereaved, r.patience = true, 2*r.cfg.Tick
	r.campaignAt = r.now.Add(r.cfg.Tick/10 + r.turnAfter(node))
}

// turnAfter returns how long this member lets others campaign first.
func (r *Replica) turnAfter(dead machine.NodeID) time.Duration {
	voters := slices.Sorted(slices.Values(r.tail.conf.GetVoters()))
	voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == uint64(dead) })
	return time.Duration(max(0, slices.Index(voters, uint64(r.cfg.ID)))) * r.cfg.Tick / 2
}

func (r *Replica) campaign() {
	// The leader may have been heard of again in the same turn.
	r.bereaved = r.bereaved && r.raft.BasicStatus().Lead == raft.None
	if !r.bereaved || r.now < r.campaignAt {
		return
	}
	// Another campaign ends the one under way, whose votes may be far off.
	r.campaignAt = r.now.Add(r.patience + r.turnAfter(0))
	r.patience *= 2
	_ = r.raft.Campaign() // fails only for a leader
}

// handOver passes leadership to a voter, 0 for the follower that has most of the log.
func (r *Replica) handOver(to machine.NodeID) {
	if !r.leading() {
		return
	}
	if to != 0 { // it may not come to it, so this one's lease is kept
		r.raft.TransferLeader(uint64(to))
		return
	}
	// The next leader need not wait until this one's lease ends.
	r.reads.yield()
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

// proposeOwn appends an entry of the leader's own, under the leader's term.
func (r *Replica) proposeOwn(kind byte, m proto.Message) (seq uint64, ok bool) {
	body, err := encodeRequest(kind, m)
	if err != nil {
		panic(err) // a message of our own making
	}
	r.proposals.seq++
	b := &batch{Term: r.term, From: r.cfg.ID, Boot: r.cfg.Boot, Seq: r.proposals.seq, Requests: []Propose{{Body: body}}}
	return b.Seq, r.append(r.term, b.encode(), nil)
}

// onForward appends a member's batch, once however often it arrives, or tells
// the member that it was not appended.
func (r *Replica) onForward(from machine.NodeID, m forward) {
	b, err := decodeBatch(m.Entry)
	if err == nil {
		err = soundBatch(m.Entry)
	}
	if err != nil || b.From != from || b.Term != m.Term || b.Seq != m.Seq {
		return // not from one of ours: the log must not be spoiled by it
	}
	if m.Term != r.term || !r.leading() {
		return // the sender finds out by itself that this term is over
	}
	// A batch is for one term, so a leader need remember only its own leadership.
	key := asker{from, b.Boot}
	if r.forwards == nil {
		r.forwards = map[asker]*fates{}
	}
	if r.forwards[key] == nil {
		r.forwards[key] = &fates{}
	}
	v, known := r.forwards[key].find(m.Seq)
	if !known {
		v = r.admit(m.Term, m.Entry, b.Requests)
		r.forwards[key].add(m.Seq, v)
	}
	switch {
	case v == notNow:
		r.send(from, refused{Boot: b.Boot, Term: m.Term, Seq: m.Seq})
	case v >= refusals:
		r.send(from, rejected{Boot: b.Boot, Term: m.Term, Seq: m.Seq, Why: v})
	}
}

// fates remembers what a leader decided about a member's latest batches.
type fates struct {
	order    []uint64
	verdicts map[uint64]verdict
	floor    uint64 // what is not above was forgotten
}

// rememberedFates is far more than a member has batches on their way. A batch that was lost
// and is sent again behind so many later ones is taken for one that was decided about, and
// not appended in this leadership. Nobody takes that for success: its requests are answered
// from the log only, so their callers hear of a time-out, which leaves it open.
const rememberedFates = 4096

func (f *fates) find(seq uint64) (v verdict, known bool) {
	if seq <= f.floor {
		return accepted, true // too late to tell: silence, and the sender gives up
	}
	v, known = f.verdicts[seq]
	return v, known
}

func (f *fates) add(seq uint64, v verdict) {
	if f.verdicts == nil {
		f.verdicts = map[uint64]verdict{}
	}
	f.verdicts[seq] = v
	f.order = append(f.order, seq)
	if len(f.order) > rememberedFates {
		f.floor = max(f.floor, f.order[0])
		delete(f.verdicts, f.order[0])
		f.order = f.order[1:]
	}
}
