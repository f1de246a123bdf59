package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// verdict is what a leader decides about a batch. The numbers from refusals on are on
// the wire, and say which of whyNot it is.
type verdict uint64

const (
	notNow   verdict = iota // there is no room, or the change before it is not released
	accepted                // it is in the log
	refusals
)

// whyNot are the reasons for which a change of the membership is refused for good:
// etcd's errors.
var whyNot = [...]error{
	rpctypes.ErrGRPCMemberExist, rpctypes.ErrGRPCPeerURLExist, rpctypes.ErrGRPCMemberNotFound,
	rpctypes.ErrGRPCMemberNotLearner, rpctypes.ErrGRPCLearnerNotReady, rpctypes.ErrGRPCTooManyLearners,
	rpctypes.ErrGRPCMemberNotEnoughStarted, rpctypes.ErrGRPCUnhealthy, errUsersUnknown, errAlarmsUnknown,
}

const (
	memberExists verdict = refusals + iota
	urlExists
	notFound
	notLearner
	notReady
	tooManyLearners
	lastVoter
	unhealthy
	usersUnknown
	alarmsUnknown
	pastVerdicts
)

// errUsersUnknown: see admitUsers.
var errUsersUnknown = status.Error(codes.FailedPrecondition, "tenure: not all members know users: start each with a version that does, and try again when all are connected")

// err returns why a batch was refused for good.
func (v verdict) err() error { return whyNot[v-refusals] }

// learnerLag is how many entries a learner may be behind what is committed to be
// promoted: what a healthy member catches up with in a moment, under any load.
const learnerLag = 1000

const (
	// maxApplyingBytes is how much raft hands out before some of that is applied.
	maxApplyingBytes = 8 << 20
	// maxBacklog is how much may be before a change in the log that is not applied, for
	// readers may hold it up: a committed change that raft cannot hand out keeps
	// everybody from campaigning.
	maxBacklog = maxApplyingBytes / 2
)

// asksChange reports whether a request asks for another membership.
func asksChange(requests []Propose) bool {
	return len(requests) > 0 && len(requests[0].Body) > 0 && requests[0].Body[0] == kindMembership
}

// admit decides about a batch that is addressed to the leader of a term, and puts it
// into the log if it may.
func (r *Replica) admit(term uint64, entry []byte, requests []Propose) verdict {
	if asksUsers(requests) {
		return r.admitUsers(term, entry, requests)
	}
	if asksAlarm(requests) {
		return r.admitAlarm(term, entry, requests)
	}
	if !asksChange(requests) {
		if r.append(term, entry, requests) {
			return accepted
		}
		return notNow
	}
	_, m, err := decodeRequest(requests[0].Body)
	cc, ok := m.(*raftpb.ConfChange)
	if err != nil || !ok || len(requests) != 1 || soundChange(cc) != nil {
		return notNow // of another version
	}
	// One at a time: until the last one is released, some reader may not know of it
	// (R23), and raft itself wants it to be applied. Then this leader knows all.
	members := r.reads.memberships
	if !r.presides() || len(members) != 1 || members.Newest().Index > r.visible || r.reads.unapplied.bytes() > maxBacklog {
		return notNow
	}
	if v := r.judge(cc); v != accepted {
		if promotes(cc) {
			r.promotions.refused[v-refusals]++
		}
		return v
	}
	if cc.GetType() == raftpb.ConfChangeRemoveNode && machine.NodeID(cc.GetNodeId()) == r.cfg.ID {
		// The next leader removes it, so that somebody leads all the time.
		r.handOver(0)
		return notNow
	}
	return r.appendChange(term, &raftpb.ConfChange{Type: cc.Type, NodeId: cc.NodeId, Context: entry})
}

// appendChange puts a change into the log if this member leads in term.
func (r *Replica) appendChange(term uint64, cc *raftpb.ConfChange) verdict {
	st := r.raft.BasicStatus()
	if st.RaftState != raft.StateLeader || st.HardState.GetTerm() != term || r.raft.ProposeConfChange(cc) != nil {
		return notNow
	}
	r.last++
	return accepted
}

// promotes reports whether a change gives a learner a vote.
func promotes(cc *raftpb.ConfChange) bool {
	return cc.GetType() == raftpb.ConfChangeAddNode && len(cc.GetContext()) == 0
}

// judge reports whether a change makes sense, and leaves a cluster that works: as etcd's
// strict reconfiguration check has it, a majority of voters that were heard of just now.
func (r *Replica) judge(cc *raftpb.ConfChange) verdict {
	id, now := cc.GetNodeId(), r.reads.memberships.Newest()
	is := r.roster.Find(id)
	promotes := promotes(cc)
	adds := !promotes && (cc.GetType() == raftpb.ConfChangeAddNode || cc.GetType() == raftpb.ConfChangeAddLearnerNode)
	switch {
	case adds && (is != nil || r.roster.WasRemoved(id)):
		return memberExists
	case !adds && is == nil:
		return notFound
	case !promotes && r.urlTaken(cc):
		return urlExists
	}
	voters := slices.Clone(now.Voters)
	switch {
	case cc.GetType() == raftpb.ConfChangeUpdateNode:
		return accepted
	case cc.GetType() == raftpb.ConfChangeAddLearnerNode:
		if len(now.Learners) >= r.cfg.MaxLearners {
			return tooManyLearners
		}
		return accepted
	case promotes && !is.IsLearner:
		return notLearner
	case promotes && !r.inSync(id):
		return notReady
	case cc.GetType() == raftpb.ConfChangeRemoveNode:
		voters = slices.DeleteFunc(voters, func(v machine.NodeID) bool { return uint64(v) == id })
		if len(voters) == 0 {
			return lastVoter
		}
		if is.IsLearner {
			return accepted
		}
	case len(voters) == 1 && adds:
		return accepted // there is no other way to grow
	default:
		voters = append(voters, machine.NodeID(id))
	}
	active := 0
	for _, v := range voters {
		if v == r.cfg.ID || r.active(v) {
			active++
		}
	}
	if active < quorumlease.Majority(len(voters)) && !r.cfg.LooseReconfig {
		return unhealthy
	}
	return accepted
}

// active reports whether a member was heard of within an election timeout.
func (r *Replica) active(id machine.NodeID) bool {
	at, ok := r.heard[id]
	return ok && r.now.Sub(at) <= r.cfg.electionTimeout()
}

// urlTaken reports whether another member listens where one is to.
func (r *Replica) urlTaken(cc *raftpb.ConfChange) bool {
	var wants pb.Member
	if proto.Unmarshal(cc.GetContext(), &wants) != nil {
		return false
	}
	return slices.ContainsFunc(r.roster.Members, func(m *pb.Member) bool {
		return m.ID != cc.GetNodeId() && slices.ContainsFunc(m.PeerURLs, func(u string) bool { return slices.Contains(wants.PeerURLs, u) })
	})
}

// inSync reports whether a learner has almost all that is committed.
func (r *Replica) inSync(id uint64) (ok bool) {
	commit := r.raft.BasicStatus().HardState.GetCommit()
	r.raft.WithProgress(func(m uint64, _ raft.ProgressType, pr tracker.Progress) {
		if m == id {
			ok = pr.State == tracker.StateReplicate && pr.Match+learnerLag >= commit && r.active(machine.NodeID(id))
		}
	})
	return ok
}

// reconfigure has raft go by the changes among entries that it has committed, and takes
// them for applied. A member that waits for readers to see a change, with its leader
// gone, must be able to become the leader.
func (r *Replica) reconfigure(entries []*raftpb.Entry) {
	for _, e := range entries {
		if !changes(e) {
			continue
		}
		cc, err := changeOf(e)
		if err != nil {
			continue // the Applier says so
		}
		if voters := r.tail.conf.GetVoters(); cc.GetType() == raftpb.ConfChangeRemoveNode && len(voters) == 1 && voters[0] == cc.GetNodeId() {
			continue // raft would panic: no leader appends it, and no log has it
		}
		r.tail.conf = r.raft.ApplyConfChange(cc)
		if cc.GetType() == raftpb.ConfChangeAddNode || cc.GetType() == raftpb.ConfChangeAddLearnerNode {
			r.tail.joined = e.GetIndex()
		}
		r.afterApply(e.GetIndex())
		r.writeAtOnce()
	}
}

// settledChanges gives a log whose hard state says what the log says as well: a change
// of the membership follows another only when that is committed. A crash may have taken
// the news of that, and a member that did not know it could be elected by a majority
// of long ago.
func settledChanges(l Log) Log {
	last, before := uint64(0), uint64(0)
	for _, e := range l.Entries {
		if changes(e) {
			last, before = e.GetIndex(), last
		}
	}
	if before > l.HardState.GetCommit() {
		l.HardState = &raftpb.HardState{Term: l.HardState.Term, Vote: l.HardState.Vote, Commit: &before}
	}
	return l
}
