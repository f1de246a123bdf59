package replica

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A roster reflects the requested changes, one after another, and survives a snapshot at any point.
func TestRoster(t *testing.T) {
	ro := FoundedBy([]*pb.Member{{ID: 3, PeerURLs: []string{"c"}}, {ID: 1, Name: "flag", PeerURLs: []string{"a"}}, {ID: 2, PeerURLs: []string{"b"}}})
	ro = ro.told(&pb.Member{ID: 1, Name: "one", PeerURLs: []string{"else"}, ClientURLs: []string{"x"}})
	for i, tc := range []struct {
		name     string
		cc       *raftpb.ConfChange
		members  string // IDs, URLs, and l for learners
		voters   []machine.NodeID
		learners []machine.NodeID
		removed  []uint64
	}{
		{"a learner", AddMember(9, []string{"z"}, true), "1a 2b 3c 9zl ", []machine.NodeID{1, 2, 3}, []machine.NodeID{9}, nil},
		{"elsewhere", UpdateMember(9, []string{"y"}), "1a 2b 3c 9yl ", []machine.NodeID{1, 2, 3}, []machine.NodeID{9}, nil},
		{"its vote", PromoteMember(9), "1a 2b 3c 9y ", []machine.NodeID{1, 2, 3, 9}, nil, nil},
		{"a removal", RemoveMember(2), "1a 3c 9y ", []machine.NodeID{1, 3, 9}, nil, []uint64{2}},
		{"a voter", AddMember(5, []string{"b"}, false), "1a 3c 5b 9y ", []machine.NodeID{1, 3, 5, 9}, nil, []uint64{2}},
		{"a voter elsewhere", UpdateMember(5, []string{"w"}), "1a 3c 5w 9y ", []machine.NodeID{1, 3, 5, 9}, nil, []uint64{2}},
		{"another removal", RemoveMember(1), "3c 5w 9y ", []machine.NodeID{3, 5, 9}, nil, []uint64{1, 2}},
	} {
		before := ro
		var err error
		if ro, err = ro.after(uint64(10+i), tc.cc); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range ro.Members {
			got += string(rune('0'+m.ID)) + m.PeerURLs[0]
			if m.IsLearner {
				got += "l"
			}
			got += " "
		}
		now := ro.Memberships.Newest()
		if got != tc.members || !slices.Equal(now.Voters, tc.voters) || !slices.Equal(now.Learners, tc.learners) || !slices.Equal(ro.Removed, tc.removed) || now.Index != uint64(10+i) {
			t.Errorf("%s: %s, %+v, removed %d; want %s, %d and %d, removed %d", tc.name, got, now, ro.Removed, tc.members, tc.voters, tc.learners, tc.removed)
		}
		if len(ro.Memberships) != 2 || ro.Memberships[0].Index != before.Memberships.Newest().Index {
			t.Errorf("%s: %+v count", tc.name, ro.Memberships)
		}
		again, err := decodeRoster(ro.Members, ro.encode())
		if err != nil || !bytes.Equal(again.encode(), ro.encode()) || len(again.Memberships) != 2 {
			t.Errorf("%s: %+v comes back as %+v, %v", tc.name, ro, again, err)
		}
	}
	if m := ro.Find(1); m != nil {
		t.Errorf("one that was removed is %v", m)
	}
	if again := ro.told(&pb.Member{ID: 1, Name: "one"}); again.Find(1) != nil {
		t.Error("one that was removed has told that it is there")
	}
}

// A roster is never changed, only replaced: an earlier one stays as it was.
func TestRostersAreReplaced(t *testing.T) {
	ro := FoundedBy([]*pb.Member{{ID: 1, PeerURLs: []string{"a"}}, {ID: 2, PeerURLs: []string{"b"}}, {ID: 3, PeerURLs: []string{"c"}, IsLearner: true}})
	ro.Removed = append(make([]uint64, 0, 8), 5, 7)
	text := func() string { return fmt.Sprint(ro.Members, ro.Removed[:3:3], ro.Memberships) }
	before := text()
	for name, cc := range map[string]*raftpb.ConfChange{
		"a new member": AddMember(9, []string{"z"}, false), "another place": UpdateMember(2, []string{"y"}), "a vote": PromoteMember(3), "a removal": RemoveMember(1),
	} {
		if _, err := ro.after(10, cc); err != nil || text() != before {
			t.Errorf("%s: a roster that was %s is %s, %v", name, before, text(), err)
		}
	}
	told := ro.told(&pb.Member{ID: 2, Name: "two", PeerURLs: []string{"x"}, ClientURLs: []string{"client"}})
	if m := told.Find(2); text() != before || m.Name != "two" || !slices.Equal(m.ClientURLs, []string{"client"}) || !slices.Equal(m.PeerURLs, []string{"b"}) {
		t.Errorf("a member has told its name and its client URLs: it is %v, and the roster before, %s, is %s", m, before, text())
	}
}

// Founders have no names before they start. Learners among them have no vote, and raft's configuration
// agrees.
func TestFoundersThatLearn(t *testing.T) {
	ro := FoundedBy([]*pb.Member{{ID: 4, Name: "four", PeerURLs: []string{"d"}, IsLearner: true}, {ID: 2, Name: "two"}, {ID: 3, IsLearner: true}, {ID: 1}})
	conf := ro.ConfState()
	if now := ro.Memberships.Newest(); now.Index != 1 || !slices.Equal(now.Voters, []machine.NodeID{1, 2}) || !slices.Equal(now.Learners, []machine.NodeID{3, 4}) ||
		!slices.Equal(conf.GetVoters(), []uint64{1, 2}) || !slices.Equal(conf.GetLearners(), []uint64{3, 4}) {
		t.Errorf("raft has %v, and read leases %+v", conf, now)
	}
	for i, m := range ro.Members {
		if m.ID != uint64(i+1) || m.Name != "" || m.IsLearner != (m.ID > 2) {
			t.Errorf("a founder is %v", m)
		}
	}
	if m := ro.Find(4); m == nil || !slices.Equal(m.PeerURLs, []string{"d"}) || ro.Find(5) != nil {
		t.Errorf("founder 4 is %v, and there is %v", m, ro.Find(5))
	}
}

// The section of a snapshot about the members is read to its end, and extra bytes are refused.
func TestRosterOnDisk(t *testing.T) {
	ro := FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3, IsLearner: true}})
	ro.Removed = []uint64{4, 300}
	p := ro.encode()
	if want := []byte{2, 4, 0xac, 2, 1, 1, 2, 1, 2, 1, 3}; !bytes.Equal(p, want) {
		t.Errorf("a roster is %v, on disk it is %v", p, want)
	}
	for n := range p {
		if got, err := decodeRoster(ro.Members, p[:n]); err == nil {
			t.Errorf("%d bytes of %d are taken for %+v", n, len(p), got)
		}
	}
	if got, err := decodeRoster(ro.Members, append(p, 0)); err == nil {
		t.Errorf("with a byte behind it it is taken for %+v", got)
	}
	if !ro.WasRemoved(4) || !ro.WasRemoved(300) || ro.WasRemoved(5) || ro.WasRemoved(1) {
		t.Errorf("members were removed that were not: %+v", ro)
	}
}

// A change that cannot be decoded is refused, and so is one whose member cannot be decoded. A guess
// would make the membership differ from that of the other members.
func TestUnreadableChanges(t *testing.T) {
	data, err := proto.Marshal(RemoveMember(3))
	if err != nil {
		t.Fatal(err)
	}
	if cc, err := changeOf(&raftpb.Entry{Data: data}); err != nil || cc.GetNodeId() != 3 {
		t.Errorf("a removal of 3 is read as %v, %v", cc, err)
	}
	if cc, err := changeOf(&raftpb.Entry{Data: append(data, 0)}); !errors.Is(err, errBadEntry) {
		t.Errorf("with a byte behind it it is read as %v, %v", cc, err)
	}
	cc := AddMember(4, []string{"d"}, true)
	cc.Context = append(cc.Context, 0)
	ro := FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}})
	if after, err := ro.after(10, cc); !errors.Is(err, errBadEntry) || len(after.Members) != 3 {
		t.Errorf("a member that cannot be read joins: %+v, %v", after, err)
	}
}

// A change that was requested without URLs is recognized as the same change. Without a member in it,
// it would be a promotion.
func TestChangesWithoutURLs(t *testing.T) {
	for name, c := range map[string]struct {
		cc   *raftpb.ConfChange
		kind raftpb.ConfChangeType
		says bool // of which member
	}{
		"a voter":      {AddMember(3, nil, false), raftpb.ConfChangeAddNode, true},
		"a learner":    {AddMember(3, nil, true), raftpb.ConfChangeAddLearnerNode, true},
		"another URL":  {UpdateMember(3, nil), raftpb.ConfChangeUpdateNode, true},
		"a promotion":  {PromoteMember(3), raftpb.ConfChangeAddNode, false},
		"a removal":    {RemoveMember(3), raftpb.ConfChangeRemoveNode, false},
		"with its URL": {AddMember(3, []string{"c"}, false), raftpb.ConfChangeAddNode, true},
	} {
		if c.cc.GetType() != c.kind || c.cc.GetNodeId() != 3 || len(c.cc.GetContext()) > 0 != c.says {
			t.Errorf("%s: %v", name, c.cc)
		}
	}
}

// A change in a log shows that the change before it is committed.
func TestSettledChanges(t *testing.T) {
	entry := func(index uint64, typ raftpb.EntryType) *raftpb.Entry {
		return &raftpb.Entry{Index: &index, Type: &typ}
	}
	normal, change := raftpb.EntryNormal, raftpb.EntryConfChange
	for _, tc := range []struct {
		name    string
		entries []*raftpb.Entry
		commit  uint64
		want    uint64
	}{
		{"no change", []*raftpb.Entry{entry(5, normal), entry(6, normal)}, 4, 4},
		{"one", []*raftpb.Entry{entry(5, change), entry(6, normal)}, 4, 4},
		{"two", []*raftpb.Entry{entry(5, change), entry(6, normal), entry(7, change)}, 4, 5},
		{"three", []*raftpb.Entry{entry(5, change), entry(6, change), entry(7, change)}, 4, 6},
		{"known", []*raftpb.Entry{entry(5, change), entry(6, normal), entry(7, change)}, 6, 6},
	} {
		term := uint64(3)
		l := settledChanges(Log{HardState: &raftpb.HardState{Term: &term, Vote: &term, Commit: &tc.commit}, Entries: tc.entries})
		if got := l.HardState; got.GetCommit() != tc.want || got.GetTerm() != 3 || got.GetVote() != 3 {
			t.Errorf("%s: %v, want it to be committed up to %d", tc.name, got, tc.want)
		}
	}
}

// Each reason for refusing a change has an encoding, and corresponds to an error of etcd's.
func TestRefusalsOnTheWire(t *testing.T) {
	for v, want := range map[verdict]error{
		memberExists: rpctypes.ErrGRPCMemberExist, urlExists: rpctypes.ErrGRPCPeerURLExist, notFound: rpctypes.ErrGRPCMemberNotFound,
		notLearner: rpctypes.ErrGRPCMemberNotLearner, notReady: rpctypes.ErrGRPCLearnerNotReady, tooManyLearners: rpctypes.ErrGRPCTooManyLearners,
		lastVoter: rpctypes.ErrGRPCMemberNotEnoughStarted, unhealthy: rpctypes.ErrGRPCUnhealthy,
	} {
		p, err := EncodeBody(rejected{Boot: 1, Term: 2, Seq: 3, Why: v})
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeBody(p)
		if m, ok := got.(rejected); err != nil || !ok || !errors.Is(m.Why.err(), want) {
			t.Errorf("%d comes as %v, %v, want %v", v, got, err, want)
		}
	}
	for _, v := range []verdict{notNow, accepted, pastVerdicts} {
		p, _ := EncodeBody(rejected{Why: v})
		if got, err := DecodeBody(p); err == nil {
			t.Errorf("%d is taken for a reason: %v", v, got)
		}
	}
}

// An entry that changes raft's configuration must contain exactly the requested change. Otherwise it
// must not be applied, for raft would have another membership than the state.
func TestChangeThatContradictsItself(t *testing.T) {
	encoded := func(term uint64, cc *raftpb.ConfChange, list ...*raftpb.ConfChange) *raftpb.Entry {
		return encodedChange(t, term, cc, list...)
	}
	add, remove := AddMember(4, []string{"d"}, true), RemoveMember(3)
	for _, tc := range []struct {
		name string
		e    *raftpb.Entry
		ok   bool
	}{
		{"as asked", encoded(1, add, add), true},
		{"something else", encoded(1, add, remove), false},
		{"somebody else", encoded(1, add, AddMember(5, []string{"d"}, true)), false},
		{"for another term", encoded(2, add, add), false},
		{"nothing", encoded(1, add), false},
		{"two", encoded(1, add, add, remove), false},
	} {
		a := NewApplier(1, 1)
		a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 3}}))
		err := a.Apply(tc.e)
		_, results := a.Take()
		if (err == nil) != tc.ok || tc.ok && (len(results) != 1 || a.Roster().Find(4) == nil) || !tc.ok && !errors.Is(err, errBadEntry) {
			t.Errorf("%s: %v and %d results, applied is to be %v", tc.name, err, len(results), tc.ok)
		}
	}
}

// encodedChange is an entry of term 1 that makes a change, with the requested changes in its batch.
func encodedChange(t *testing.T, term uint64, cc *raftpb.ConfChange, asked ...*raftpb.ConfChange) *raftpb.Entry {
	t.Helper()
	b := &batch{Term: term, From: 1, Boot: 1, Seq: 1}
	for _, one := range asked {
		body, err := EncodeRequest(one)
		if err != nil {
			t.Fatal(err)
		}
		b.Requests = append(b.Requests, Propose{ID: 1, Body: body})
	}
	data, err := proto.Marshal(&raftpb.ConfChange{Type: cc.Type, NodeId: cc.NodeId, Context: b.encode()})
	if err != nil {
		t.Fatal(err)
	}
	return &raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(1)), Type: raftpb.EntryConfChange.Enum(), Data: data}
}

// The entries of a log show the URLs of members even before they are applied.
func TestPeerURLsOfALog(t *testing.T) {
	entry := func(cc *raftpb.ConfChange) *raftpb.Entry { return encodedChange(t, 1, cc, cc) }
	got := PeerURLs([]*raftpb.Entry{
		entry(AddMember(4, []string{"http://d", "http://d2"}, true)),
		{Index: new(uint64(3)), Term: new(uint64(1)), Data: []byte("a request")},
		entry(UpdateMember(1, []string{"http://a"})),
		encodedChange(t, 2, UpdateMember(9, []string{"http://of-another-term"}), UpdateMember(9, []string{"http://of-another-term"})),
		entry(RemoveMember(4)),
		entry(UpdateMember(2, []string{"http://d"})),
	})
	want := map[string]uint64{"http://d": 2, "http://d2": 4, "http://a": 1}
	if !maps.Equal(got, want) {
		t.Errorf("the log says that members are at %v, want %v", got, want)
	}
}

// A member counts as alive for an election timeout after its last message.
func TestWhoIsAlive(t *testing.T) {
	r := keyReader(9)
	r.now = 1000
	timeout := r.cfg.electionTimeout()
	r.heard = map[machine.NodeID]machine.Mono{2: r.now.Add(-timeout), 3: r.now.Add(-timeout - 1)}
	for id, want := range map[machine.NodeID]bool{2: true, 3: false, 4: false} {
		if r.active(id) != want {
			t.Errorf("member %d, heard of at %v, is alive at %v: %v", id, r.heard[id], r.now, !want)
		}
	}
}

// All members receive the news of the release once, including learners and members that are leaving.
func TestAllAreToldWhatIsReleased(t *testing.T) {
	r := keyReader(9)
	r.leader, r.term = 1, 2
	rl := &r.reads
	before := quorumlease.Membership{Index: 1, Voters: []machine.NodeID{1, 2, 3}}
	rl.count(quorumlease.Memberships{before}.With(quorumlease.Membership{Index: 20, Voters: []machine.NodeID{1, 2}, Learners: []machine.NodeID{4}}))
	told := func() (list []machine.NodeID) {
		rl.announce(r.moment, &r.effects)
		for _, env := range r.sends {
			list = append(list, env.To)
		}
		r.sends = nil
		return list
	}
	rl.version++
	if got := told(); !slices.Equal(got, []machine.NodeID{2, 4, 3}) {
		t.Errorf("members %d are told, want 2, 4 and 3", got)
	}
	if got := told(); len(got) > 0 {
		t.Errorf("members %d are told again", got)
	}
	rl.version++
	rl.telling(2) // with an append
	if got := told(); !slices.Equal(got, []machine.NodeID{4, 3}) {
		t.Errorf("members %d are told, want those that no append has told", got)
	}
	rl.stalls = quorumlease.NewStalls(quorumlease.Config{})
	if rl.newLeader(r.moment, false); len(told()) > 0 {
		t.Error("members are told again, and the term is the same")
	}
	r.term++
	rl.newLeader(r.moment, true)
	if got := told(); !slices.Equal(got, []machine.NodeID{2, 4, 3}) {
		t.Errorf("in another term members %d are told, want all anew", got)
	}
}

// A learner may be promoted if raft replicates to it, if it lacks at most a thousand committed
// entries, and if it was alive just now.
func TestWhoMayBePromoted(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms", "cut 3"} {
		s.do(command)
	}
	lead := s.members[0].r
	had := lead.Status().Progress[3]
	for lead.Status().Commit < had+learnerLag {
		s.do("put 1 k v")
		s.do("deliver")
	}
	if !lead.inSync(3) {
		t.Errorf("a member with entry %d of %d may not be promoted", had, lead.Status().Commit)
	}
	if lead.inSync(4) {
		t.Error("a member that there is not may be promoted")
	}
	s.do("put 1 k v")
	s.do("deliver")
	if lead.inSync(3) {
		t.Errorf("a member with entry %d of %d may be promoted", had, lead.Status().Commit)
	}
	if !lead.inSync(2) {
		t.Error("a member that has everything may not be promoted")
	}
	heard := lead.heard[2]
	lead.heard[2] = s.now.Add(-lead.cfg.electionTimeout() - 1)
	if lead.inSync(2) {
		t.Error("a member that nobody has heard of for long may be promoted")
	}
	lead.heard[2] = heard
	s.step(s.members[0], Unreachable{2})
	if lead.inSync(2) {
		t.Error("a member that cannot be reached may be promoted")
	}
}

// A change says of which member it is, what it does, and where that is to be found.
func TestWhatAChangeSays(t *testing.T) {
	urls := []string{"http://a:1", "http://b:2"}
	for _, tt := range []struct {
		cc   *raftpb.ConfChange
		kind raftpb.ConfChangeType
		urls []string
	}{
		{AddMember(9, urls, false), raftpb.ConfChangeAddNode, urls},
		{AddMember(9, urls, true), raftpb.ConfChangeAddLearnerNode, urls},
		{UpdateMember(9, urls), raftpb.ConfChangeUpdateNode, urls},
		{PromoteMember(9), raftpb.ConfChangeAddNode, nil},
		{RemoveMember(9), raftpb.ConfChangeRemoveNode, nil},
	} {
		var m pb.Member
		if err := proto.Unmarshal(tt.cc.GetContext(), &m); err != nil || tt.cc.GetNodeId() != 9 || tt.cc.GetType() != tt.kind || !slices.Equal(m.PeerURLs, tt.urls) || (len(tt.cc.GetContext()) > 0) != (tt.urls != nil) {
			t.Errorf("a change of type %v says %v, with the URLs %q; want %v, %q", tt.cc.GetType(), tt.cc, m.PeerURLs, tt.kind, tt.urls)
		}
	}
}
