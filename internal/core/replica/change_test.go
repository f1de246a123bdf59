package replica

import (
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// A change of the membership is refused for good if it makes no sense, or if it leaves a cluster
// without a majority of live voters. The reasons, and their order, are etcd's.
func TestWhichChangesMakeSense(t *testing.T) {
	at := func(id uint64) []string { return []string{fmt.Sprintf("http://m:%d", id)} }
	ids := func(list ...machine.NodeID) []machine.NodeID { return list }
	// This member is 1, and of the log 2 and 3 have all.
	for _, tt := range []struct {
		name     string
		voters   []machine.NodeID
		learners []machine.NodeID
		alive    []machine.NodeID // beside this one
		asked    *raftpb.ConfChange
		want     verdict
	}{
		{"a voter that there is", ids(1, 2, 3), nil, ids(2, 3), AddMember(2, at(9), false), memberExists},
		{"a learner that votes already", ids(1, 2, 3), nil, ids(2, 3), AddMember(2, at(9), true), memberExists},
		{"a voter that was removed", ids(1, 2, 3), nil, ids(2, 3), AddMember(8, at(8), false), memberExists},
		{"a learner that was removed", ids(1, 2, 3), nil, ids(2, 3), AddMember(8, at(8), true), memberExists},
		{"a member that there is, where another is", ids(1, 2, 3), nil, ids(2, 3), AddMember(2, at(3), false), memberExists},
		{"to remove nobody", ids(1, 2, 3), nil, ids(2, 3), RemoveMember(9), notFound},
		{"to remove a member that was removed", ids(1, 2, 3), nil, ids(2, 3), RemoveMember(8), notFound},
		{"to promote nobody", ids(1, 2, 3), nil, ids(2, 3), PromoteMember(9), notFound},
		{"to move nobody", ids(1, 2, 3), nil, ids(2, 3), UpdateMember(9, at(9)), notFound},
		{"a voter where another is", ids(1, 2, 3), nil, ids(2, 3), AddMember(9, at(3), false), urlExists},
		{"a learner where another is", ids(1, 2, 3), nil, ids(2, 3), AddMember(9, at(3), true), urlExists},
		{"to move to where another is", ids(1, 2, 3), nil, ids(2, 3), UpdateMember(2, at(3)), urlExists},
		{"to move to where it is", ids(1, 2, 3), nil, ids(2, 3), UpdateMember(2, at(2)), accepted},
		{"to move with nobody alive", ids(1, 2, 3), nil, nil, UpdateMember(2, at(9)), accepted},
		{"a learner with nobody alive", ids(1, 2, 3), nil, nil, AddMember(9, at(9), true), accepted},
		{"as many learners as may be", ids(1, 2, 3), ids(4), nil, AddMember(9, at(9), true), accepted},
		{"one learner more", ids(1, 2, 3), ids(4, 5), ids(2, 3), AddMember(9, at(9), true), tooManyLearners},
		{"to promote a voter", ids(1, 2, 3), nil, ids(2, 3), PromoteMember(2), notLearner},
		{"to promote one that is behind", ids(1, 2, 3), ids(4), ids(2, 3, 4), PromoteMember(4), notReady},
		{"to promote one that nobody has heard of", ids(1, 2), ids(3), ids(2), PromoteMember(3), notReady},
		{"to promote one that has all", ids(1, 2), ids(3), ids(2, 3), PromoteMember(3), accepted},
		{"to promote one, which is alive itself", ids(1, 2), ids(3), ids(3), PromoteMember(3), accepted},
		{"to promote one where most are dead", ids(1, 4, 5), ids(3), ids(3), PromoteMember(3), unhealthy},
		{"to remove the last voter", ids(1), ids(4), ids(4), RemoveMember(1), lastVoter},
		{"to remove a learner beside the last voter", ids(1), ids(4), nil, RemoveMember(4), accepted},
		{"to remove a learner with nobody alive", ids(1, 2, 3), ids(4), nil, RemoveMember(4), accepted},
		{"to remove a voter", ids(1, 2, 3), nil, ids(3), RemoveMember(2), accepted},
		{"to remove a voter that is needed", ids(1, 2, 3), nil, ids(2), RemoveMember(2), unhealthy},
		{"to remove a voter that is dead", ids(1, 2, 3), nil, ids(3), RemoveMember(2), accepted},
		{"to remove one of two", ids(1, 2), nil, nil, RemoveMember(2), accepted},
		{"to remove the leader", ids(1, 2, 3), nil, ids(2, 3), RemoveMember(1), accepted},
		{"a second voter, which nobody has heard of", ids(1), nil, nil, AddMember(9, at(9), false), accepted},
		{"a third voter, of two that are alive", ids(1, 2), nil, ids(2), AddMember(9, at(9), false), accepted},
		{"a third voter, of which one is dead", ids(1, 2), nil, nil, AddMember(9, at(9), false), unhealthy},
		{"a fourth voter, of three that are alive", ids(1, 2, 3), nil, ids(2, 3), AddMember(9, at(9), false), accepted},
		{"a fourth voter, of which one is dead", ids(1, 2, 3), nil, ids(2), AddMember(9, at(9), false), unhealthy},
		{"a voter that learners outvote", ids(1, 2, 3), ids(4, 5), ids(4, 5), AddMember(9, at(9), false), unhealthy},
	} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[0].r
		r.cfg.MaxLearners = 2
		var members []*pb.Member
		for _, id := range tt.voters {
			members = append(members, &pb.Member{ID: uint64(id), PeerURLs: at(uint64(id))})
		}
		for _, id := range tt.learners {
			members = append(members, &pb.Member{ID: uint64(id), PeerURLs: at(uint64(id)), IsLearner: true})
		}
		r.roster = FoundedBy(members)
		r.roster.Removed = []uint64{8}
		r.reads.memberships = r.roster.Memberships
		r.heard = map[machine.NodeID]machine.Mono{}
		for _, id := range tt.alive {
			r.heard[id] = r.now
		}
		if got := r.judge(tt.asked); got != tt.want {
			t.Errorf("%s: the verdict is %d, want %d", tt.name, got, tt.want)
		}
		loose := tt.want
		if loose == unhealthy {
			loose = accepted
		}
		if r.cfg.LooseReconfig = true; r.judge(tt.asked) != loose {
			t.Errorf("%s, without a strict check: the verdict is %d, want %d", tt.name, r.judge(tt.asked), loose)
		}
	}
}

// Changes are made one at a time. The leader needs a released entry of its own term. Earlier changes
// must be released and applied, and little of the log may wait before the new one. A change that
// cannot be made now may be made later, and does not hold up other requests.
func TestChangesWaitForEachOther(t *testing.T) {
	asked := AddMember(9, []string{"http://9:1"}, true)
	body, err := EncodeRequest(asked)
	if err != nil {
		t.Fatal(err)
	}
	other, err := EncodeRequest(RemoveMember(3))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(r *Replica)
		bodies [][]byte
		want   verdict
	}{
		{"the first", func(*Replica) {}, [][]byte{body}, accepted},
		{"two at once", func(*Replica) {}, [][]byte{body, other}, notNow},
		{"one that nobody can read", func(*Replica) {}, [][]byte{body[:3]}, notNow},
		{"before an entry of the term is released", func(r *Replica) { r.visibleTerm-- }, [][]byte{body}, notNow},
		{"while one is not released", func(r *Replica) {
			r.reads.memberships = r.reads.memberships.With(quorumlease.Membership{Index: 1, Voters: r.reads.voters})
		}, [][]byte{body}, notNow},
		{"while one is not applied", func(r *Replica) {
			r.reads.memberships = quorumlease.Memberships{{Index: r.visible + 1, Voters: r.reads.voters}}
		}, [][]byte{body}, notNow},
		{"when one was just applied", func(r *Replica) {
			r.reads.memberships = quorumlease.Memberships{{Index: r.visible, Voters: r.reads.voters}}
		}, [][]byte{body}, accepted},
		{"behind as much as may be", func(r *Replica) {
			r.reads.tail = []*raftpb.Entry{entryAt(r.last, r.term, maxBacklog-96)}
		}, [][]byte{body}, accepted},
		{"behind a byte more", func(r *Replica) {
			r.reads.tail = []*raftpb.Entry{entryAt(r.last, r.term, maxBacklog-95)}
		}, [][]byte{body}, notNow},
		{"that makes no sense", func(r *Replica) { r.roster.Removed = []uint64{9} }, [][]byte{body}, memberExists},
	} {
		s := newStage(t)
		for _, command := range []string{"elect 1", "pass 200ms"} {
			s.do(command)
		}
		r := s.members[0].r
		r.cfg.MaxLearners = 1
		tt.change(r)
		var requests []Propose
		for i, body := range tt.bodies {
			requests = append(requests, Propose{ID: uint64(i), Body: body})
		}
		last := r.last
		entry := (&batch{Term: r.term, From: 1, Boot: 1, Seq: 7, Requests: requests}).encode()
		got := r.admit(r.term, entry, requests)
		if got != tt.want || r.last-last != map[bool]uint64{true: 1}[got == accepted] {
			t.Errorf("a change %s: the verdict is %d, and the log grows by %d; want %d", tt.name, got, r.last-last, tt.want)
		}
	}
}

// A change that is committed counts for raft at once, and the log knows from where on snapshots name a new
// member. That it is committed is written at once (M3). Other entries change nothing, nor does one that cannot be read
// or that would remove the last voter.
func TestWhatACommittedChangeDoes(t *testing.T) {
	const index = 7
	unreadable := changeEntry(t, index, 1, RemoveMember(3))
	unreadable.Data = unreadable.GetData()[:1]
	for _, tt := range []struct {
		name     string
		voters   []uint64 // before
		learners []uint64
		e        *raftpb.Entry
		want     string // voters and learners
		joined   bool
		written  bool
	}{
		{"a put", []uint64{1, 2, 3}, nil, entryOfPuts(t, 1, index, "k"), "[1 2 3] []", false, false},
		{"a leader's first", []uint64{1, 2, 3}, nil, &raftpb.Entry{Index: new(uint64(index)), Term: new(uint64(1))}, "[1 2 3] []", false, false},
		{"a learner", []uint64{1, 2, 3}, nil, changeEntry(t, index, 1, AddMember(4, nil, true)), "[1 2 3] [4]", true, true},
		{"a voter", []uint64{1, 2, 3}, nil, changeEntry(t, index, 1, AddMember(4, nil, false)), "[1 2 3 4] []", true, true},
		{"a promotion", []uint64{1, 2}, []uint64{3}, changeEntry(t, index, 1, PromoteMember(3)), "[1 2 3] []", true, true},
		{"a removal", []uint64{1, 2, 3}, nil, changeEntry(t, index, 1, RemoveMember(3)), "[1 2] []", false, true},
		{"the removal of the first voter", []uint64{1, 2, 3}, nil, changeEntry(t, index, 1, RemoveMember(1)), "[2 3] []", false, true},
		{"the removal of a learner from a single voter", []uint64{2}, []uint64{3}, changeEntry(t, index, 1, RemoveMember(3)), "[2] []", false, true},
		{"another place", []uint64{1, 2, 3}, nil, changeEntry(t, index, 1, UpdateMember(3, nil)), "[1 2 3] []", false, true},
		{"one that cannot be read", []uint64{1, 2, 3}, nil, unreadable, "[1 2 3] []", false, false},
		{"the removal of the last voter", []uint64{2}, []uint64{3}, changeEntry(t, index, 1, RemoveMember(2)), "[2] [3]", false, false},
	} {
		m := &member{id: 2, log: Genesis([]machine.NodeID{1})}
		m.log.Snapshot.ConfState.Voters, m.log.Snapshot.ConfState.Learners = tt.voters, tt.learners
		s := &stage{t: t, now: 1, members: []*member{{id: 1}, m, {id: 3}}}
		s.boot(m)
		r := m.r
		news := &raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(index))}
		r.writes.news, r.persists = news, nil
		r.reconfigure([]*raftpb.Entry{tt.e})
		if got := fmt.Sprintf("%d %d", r.tail.conf.GetVoters(), r.tail.conf.GetLearners()); got != tt.want || (r.tail.joined == index) != tt.joined {
			t.Errorf("behind %s the members are %s, and snapshots must have entry %d; want %s, and that the entry adds a member: %v", tt.name, got, r.tail.joined, tt.want, tt.joined)
		}
		if written := len(r.persists) == 1 && r.persists[0].Record.(Record).HardState == news; written != tt.written || (r.writes.news == nil) != written {
			t.Errorf("behind %s, that it is committed is written at once: %v, want %v", tt.name, r.persists, tt.written)
		}
	}
}

// A member that was never heard of is not active, not even when the clock has just begun.
func TestWhichMembersAreActive(t *testing.T) {
	r := newStage(t).members[0].r
	patience := r.cfg.electionTimeout()
	r.now = 1
	r.heard = map[machine.NodeID]machine.Mono{2: 1}
	if r.active(3) || !r.active(2) {
		t.Errorf("of members 2 and 3 only 2 was heard of, and they are active: %v, %v", r.active(2), r.active(3))
	}
	for late, want := range map[time.Duration]bool{patience: true, patience + 1: false} {
		if r.now = machine.Mono(1).Add(late); r.active(2) != want {
			t.Errorf("%v after a member was heard of it is active: %v, with %v of patience", late, r.active(2), patience)
		}
	}
}

// A change is appended in the term that it is for, by that term's leader.
func TestAChangeOfAnotherTerm(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	change := AddMember(9, []string{"http://9:1"}, true)
	for i, m := range s.members {
		r := m.r
		for term, want := range map[uint64]verdict{r.term - 1: notNow, r.term + 1: notNow} {
			if got := r.appendChange(term, change); got != want {
				t.Errorf("member %d in term %d appends a change of term %d: %v", i+1, r.term, term, got)
			}
		}
		want := notNow
		if i == 0 {
			want = accepted
		}
		if last := r.last; r.appendChange(r.term, change) != want || (r.last == last+1) != (want == accepted) {
			t.Errorf("member %d appends a change, of which it is told %v, and its log ends at %d, %d before", i+1, want, r.last, last)
		}
	}
}
