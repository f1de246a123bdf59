package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// The reports of a member on itself, and of the leader on others, are shown whole.
func TestReadLeasesAreToldWhole(t *testing.T) {
	member := func(id uint64) *readleasepb.Member { return &readleasepb.Member{Id: id} }
	s := &readLeases{Members: []readLeaseMember{{ID: "a", Name: "one"}, {ID: "b"}}}
	s.fill([]*readleasepb.GetResponse{
		{
			MemberId: 0xa, Leader: member(0xb), Term: 7, Policy: "old", Order: "strict", ReleasedIndex: 95, Ttl: durationpb.New(2 * time.Second),
			LeaseLeft: durationpb.New(1500 * time.Millisecond), Reads: &readleasepb.Reads{Local: 1, Rounds: 2, Forwarded: 3},
			Clock:   &readleasepb.Clock{Doubted: true, Doubts: 4, Pauses: 5, Suspends: 6, Last: "odd", LastAgo: durationpb.New(7 * time.Second)},
			Holders: []*readleasepb.Holder{{Member: member(0xa), Active: true}},
		},
		{
			MemberId: 0xb, Leader: member(0xb), Term: 7, Policy: "all", Order: "key", CommittedIndex: 99, ReleasedIndex: 90, Ttl: durationpb.New(time.Second),
			HeldUp: &readleasepb.HeldUp{Entries: 9, Waiting: durationpb.New(20 * time.Millisecond), By: []uint64{0xa, 0xc}}, Stalled: []uint64{0xa},
			Holders: []*readleasepb.Holder{
				{Member: member(0xa), Boot: 8, HasIndex: 80, Active: true, Grantors: []uint64{0xb}}, {Member: member(0xa), Boot: 7, HasIndex: 70},
				{Member: member(0xb), Boot: 3, HasIndex: 99, Active: true},
			},
		},
	})
	want := &readLeases{
		Policy: "all", Order: "key", Leader: "b", Term: 7, Committed: 99, Released: 90, HeldUp: &heldUp{Entries: 9, WaitingMS: 20, By: []string{"one", "c"}}, best: 0xb,
		Members: []readLeaseMember{
			{
				ID: "a", Name: "one", Holds: "all keys", LeftMS: 1500, left: 1500 * time.Millisecond, TTLMS: 2000, Boot: 8, Has: 80, Stalled: true, Grantors: []string{"b"},
				Reads: &reads{1, 2, 3}, Clock: &memberClock{true, 4, 5, 6, "odd", 7000},
			},
			{ID: "b", Leader: true, TTLMS: 1000, Boot: 3, Has: 99, Holds: "all keys", Grantors: []string{}, Reads: &reads{}},
		},
	}
	if !reflect.DeepEqual(s, want) {
		got, _ := json.Marshal(s)
		wanted, _ := json.Marshal(want)
		t.Errorf("told is %s\nwant %s", got, wanted)
	}
}

// What a member holds and until when it knows best: a leader that believes it to hold a lease may be behind,
// or ahead.
func TestAMemberKnowsItsOwnLease(t *testing.T) {
	member := func(id uint64) *readleasepb.Member { return &readleasepb.Member{Id: id} }
	for _, tt := range []struct {
		name           string
		leader, itself bool
		answers        bool // the member
		want           string
	}{
		{"both know it", true, true, true, "all keys"},
		{"its lease has run out", true, false, true, ""},
		{"the leader has not heard of it", false, true, true, "all keys"},
		{"it does not answer", true, true, false, "all keys"},
		{"it does not answer, and held nothing", false, true, false, ""},
	} {
		s := &readLeases{Members: []readLeaseMember{{ID: "a"}, {ID: "b"}}}
		answers := []*readleasepb.GetResponse{
			{MemberId: 0xb, Leader: member(0xb), Term: 7, Holders: []*readleasepb.Holder{{Member: member(0xa), Boot: 8, Active: tt.leader}}},
			{MemberId: 0xa, Leader: member(0xb), Term: 7, Holders: []*readleasepb.Holder{{Member: member(0xa), Boot: 8, Active: tt.itself}}},
		}
		if !tt.answers {
			answers[1] = nil
		}
		if s.fill(answers); s.Members[0].Holds != tt.want {
			t.Errorf("%s: it is said to hold %q, want %q", tt.name, s.Members[0].Holds, tt.want)
		}
	}
}

// A call of a member has two seconds at each of its URLs: one that is silent holds nobody up.
func TestASilentMemberHoldsNobodyUp(t *testing.T) {
	client, err := serverAt(t.Context(), place{url: "etcd://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	calls := 0
	m := &pb.Member{ClientURLs: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}}
	err = atMember(t.Context(), client, m, func(ctx context.Context, _ readleasepb.ReadLeaseClient) error {
		calls++
		if end, ends := ctx.Deadline(); !ends || time.Until(end) > 2*time.Second || time.Until(end) < 0 {
			t.Errorf("call %d may take until %v (there is a limit: %v), want two seconds", calls, end, ends)
		}
		return status.Error(codes.DeadlineExceeded, "odd")
	})
	if calls != 2 || status.Code(err) != codes.DeadlineExceeded || !strings.Contains(status.Convert(err).Message(), "no answer from http://127.0.0.1:2: odd") {
		t.Errorf("after %d calls a member that is silent at two URLs is %v; want two, and the last", calls, err)
	}
}

// A member is asked at each of its URLs until one answers, and one that has none has not started.
func TestMembersAreAskedAtAllTheirURLs(t *testing.T) {
	s := &story{policy: "all"}
	at := tell(t, s)
	url := strings.Replace(at, "etcd", "http", 1)
	s.members = []*pb.Member{
		{ID: 0xa, Name: "a", ClientURLs: []string{"http://127.0.0.1:1", url}}, {ID: 0xb, Name: "b", IsLearner: true}, {ID: 0xc, Name: "c", ClientURLs: []string{"http://127.0.0.1:1"}},
	}
	out, err := command(t, "read-lease", "--at", at, "-o", "json")
	var leases readLeases
	if err != nil || json.Unmarshal([]byte(out), &leases) != nil || len(leases.Members) != 3 {
		t.Fatalf("the read leases are told as %s, %v", out, err)
	}
	if a, b, c := leases.Members[0], leases.Members[1], leases.Members[2]; a.Error != "" || a.Reads == nil || !a.Leader || a.TTLMS != 200 ||
		!strings.Contains(b.Error, "it has not started yet") || !b.Learner || a.Learner || !strings.Contains(c.Error, "no answer from http://127.0.0.1:1") {
		t.Errorf("told is %+v; want the first answer of a, that b has not started, and that c does not answer", leases.Members)
	}
	out, err = command(t, "status", "--at", at, "-o", "json")
	var shown clusterStatus
	if err != nil || json.Unmarshal([]byte(out), &shown) != nil || len(shown.Members) != 3 {
		t.Fatalf("the status is told as %s, %v", out, err)
	}
	a, b, c := shown.Members[0], shown.Members[1], shown.Members[2]
	if len(a.Errors) > 0 || !a.Leader || a.Learner || !b.Learner || len(b.Errors) != 1 || !strings.Contains(b.Errors[0], "it has not started yet") || len(c.Errors) != 1 || !strings.Contains(c.Errors[0], "no answer from http://127.0.0.1:1") {
		t.Errorf("the status is %+v; want the answer of a, that b has not started, and that c does not answer", shown.Members)
	}
	if leases := shown.ReadLeases; leases != nil && (leases.Members[1].Error != "" || leases.Members[2].Error != "") {
		t.Errorf("of members that have not answered before it is said %+v; want that they were not asked again", leases.Members[1:])
	}
	if shown.Cluster != "c1" || shown.Leader != "a" || shown.ReadLeases == nil || len(shown.ReadLeases.Members) != 3 {
		t.Errorf("the status is %+v; want cluster c1, led by a, and its read leases", shown)
	}
	out, err = command(t, "read-lease", "holders", "k", "--at", at, "-o", "json")
	var holders keyHolders
	if err != nil || json.Unmarshal([]byte(out), &holders) != nil || holders.Key != "k" || holders.Policy != "all" || holders.Order != "strict" || holders.Leader != "a" || len(holders.Holders) != 0 {
		t.Errorf("of the holders of k is told %s, %v; want the policy all in strict order, a who leads, and nobody", out, err)
	}
}

// The holder of a key is told with its distance, and a range without keys is refused.
func TestHoldersOfAKey(t *testing.T) {
	l := listenLocal(t)
	s := &story{policy: "all"}
	beside := listenLocal(t)
	s.members = []*pb.Member{
		{ID: 0xa, Name: "a", ClientURLs: []string{"http://" + l.Addr().String()}}, {ID: 0xb, Name: "b", ClientURLs: []string{"http://" + beside.Addr().String()}},
	}
	s.serve(t, l, 0xa, etcdapi.ReadLeaseStatus{Left: time.Second, Holders: []etcdapi.ReadLeaseHolder{{Member: 0xa, Boot: 4}, {Member: 0xb, Boot: 5}}})
	s.serve(t, beside, 0xb, etcdapi.ReadLeaseStatus{Holders: []etcdapi.ReadLeaseHolder{{Member: 0xa, Boot: 4, Grantors: []uint64{0xa, 0xb}}}})
	at := "etcd://" + l.Addr().String()
	out, err := command(t, "read-lease", "holders", "k", "--at", at, "-o", "json")
	var holders keyHolders
	if err != nil || json.Unmarshal([]byte(out), &holders) != nil || len(holders.Holders) != 1 {
		t.Fatalf("the holders are told as %s, %v; want one holder, by its own word", out, err)
	}
	if h := holders.Holders[0]; h.ID != "a" || h.Name != "a" || len(h.URLs) != 1 || h.RoundTripMS <= 0 || h.RoundTripMS > 10000 {
		t.Errorf("the holder is %+v; want a, where it is, and how far", h)
	}
	for _, args := range [][]string{{"b", "b"}, {"b", "a"}} {
		_, err := command(t, append([]string{"read-lease", "holders", "--at", at}, args...)...)
		wantRefused(t, err, "has no key: it must end behind its begin")
	}
}

// Of the holders of a key the nearest comes first, each by its own word. Where no member answers, an error that tells what to change
// is told before any other.
func TestHoldersByTheirDistance(t *testing.T) {
	holder := func(id uint64) *readleasepb.Holder { return &readleasepb.Holder{Member: &readleasepb.Member{Id: id}} }
	members := []*pb.Member{{ID: 0xa, Name: "a"}, {ID: 0xb, ClientURLs: []string{"http://b:1", "http://b:2"}}, {ID: 0xc, Name: "c"}, {ID: 0xd, Name: "d"}}
	answers := []*readleasepb.HoldersResponse{
		{MemberId: 0xa, Term: 6, Policy: "old", Order: "strict", Leader: &readleasepb.Member{Id: 0xa, Name: "a"}, Holders: []*readleasepb.Holder{holder(0xa), holder(0xc)}},
		{MemberId: 0xb, Term: 7, Policy: "all", Order: "key", Leader: &readleasepb.Member{Id: 0xb}, Holders: []*readleasepb.Holder{holder(0xa), holder(0xb)}},
		nil,
		{MemberId: 0xd, Term: 7, Holders: []*readleasepb.Holder{holder(0xa)}},
	}
	took := []time.Duration{30 * time.Millisecond, 20 * time.Millisecond, 0, time.Millisecond}
	r := &readleasepb.HoldersRequest{Key: []byte("k"), RangeEnd: []byte("l")}
	got, err := holdersOf(r, members, answers, took, make([]error, 4))
	want := &keyHolders{Key: "k", RangeEnd: "l", Policy: "all", Order: "key", Leader: "b", leader: answers[1].Leader, Holders: []keyHolder{
		{"b", "", members[1].ClientURLs, 20}, {"a", "a", nil, 30},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the holders are %+v, %v; want %+v", got, err, want)
	}
	down, old, wrong := status.Error(codes.Unavailable, "down"), status.Error(codes.Unimplemented, "old"), status.Error(codes.InvalidArgument, "wrong")
	for want, errs := range map[error][]error{down: {down, status.Error(codes.Unavailable, "late"), down, down}, old: {down, old, down, down}, wrong: {down, down, down, wrong}} {
		if got, err := holdersOf(r, members, make([]*readleasepb.HoldersResponse, 4), took, errs); err != want || got != nil {
			t.Errorf("nobody answers, for %v: %v, %v; want %v", errs, got, err, want)
		}
	}
}

// A member is asked at its next URL if one does not answer, and not if it has refused the call.
func TestARefusalIsAnAnswer(t *testing.T) {
	client, err := serverAt(t.Context(), place{url: "etcd://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	m := &pb.Member{ClientURLs: []string{"http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"}}
	for code, want := range map[codes.Code]int{codes.OK: 1, codes.Unimplemented: 1, codes.InvalidArgument: 1, codes.Unavailable: 3, codes.PermissionDenied: 3, codes.Unknown: 3} {
		calls := 0
		err := atMember(t.Context(), client, m, func(context.Context, readleasepb.ReadLeaseClient) error { calls++; return status.Error(code, "odd") })
		if calls != want || status.Code(err) != code {
			t.Errorf("a member that answers %v is asked at %d URLs, and the error is %v; want %d, and the same", code, calls, err, want)
		}
	}
}

// An error is shown at the member that it is of, though not all members were asked; and the holders of keys are had from the member that
// knows most, wherever it stands in the list.
func TestAnswersAreOfTheirMembers(t *testing.T) {
	l := listenLocal(t)
	s := &story{policy: "cost/key"}
	up, down := "http://"+l.Addr().String(), "http://127.0.0.1:1"
	s.members = []*pb.Member{
		{ID: 0xa, Name: "a", ClientURLs: []string{down}}, {ID: 0xb, Name: "b", ClientURLs: []string{up}}, {ID: 0xc, Name: "c", ClientURLs: []string{down}},
	}
	s.serve(t, l, 0xb, etcdapi.ReadLeaseStatus{Order: "key", Cells: func() []string { return []string{"default=b"} }})
	client, err := serverAt(t.Context(), place{url: "etcd://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	leases, err := askReadLeases(t.Context(), client, s.members, []*pb.Member{s.members[2], s.members[1]})
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := leases.Members[0], leases.Members[1], leases.Members[2]; a.Error != "" || a.Reads != nil || b.Error != "" || b.Reads == nil || c.Error == "" || c.Reads != nil {
		t.Errorf("asked were c, which is down, and b: told is %+v", leases.Members)
	}
	if err := (&readLeases{Order: "strict", best: 0xa}).askCells(t.Context(), client, s.members); err != nil {
		t.Errorf("a member is asked for the holders of keys where each holder holds all: %v", err)
	}
	if err := leases.askCells(t.Context(), client, s.members); err != nil || len(leases.Cells) != 1 || leases.Cells[0] != "default=b" {
		t.Errorf("the holders of keys are %q, %v; want what b knows", leases.Cells, err)
	}
}
