package etcdapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// three voters and a learner, of which the server is 11.
var fourMembers = []*pb.Member{
	{ID: 11, Name: "one", ClientURLs: []string{"http://c1"}}, {ID: 12, Name: "two", ClientURLs: []string{"http://c2"}},
	{ID: 13, Name: "three"}, {ID: 14, Name: "four", IsLearner: true},
}

func serveReadLeases(t *testing.T, st ReadLeaseStatus) (*served, readleasepb.ReadLeaseClient) {
	t.Helper()
	s := serve(t, Config{ReadLeaseChanges: ChangeOrder}, watch.Config{})
	s.members.Store(&fourMembers)
	s.readLeases.Store(&st)
	return s, readleasepb.NewReadLeaseClient(s.conn)
}

func TestReadLeaseGet(t *testing.T) {
	s, client := serveReadLeases(t, ReadLeaseStatus{
		Policy: "all/key", Order: "key", TTL: 200 * time.Millisecond, Left: 150 * time.Millisecond,
		Committed: 10, Released: 7, HeldUp: 1, Waiting: time.Second, WaitsFor: []uint64{14, 13}, Stalled: []uint64{12},
		Holders: []ReadLeaseHolder{
			{Member: 14, Boot: 3, Grantors: []uint64{12}, Has: 10, RoundTrip: time.Millisecond},
			{Member: 12, Boot: 5, Grantors: []uint64{11}, Has: 7, Keys: []KeyRange{{[]byte("a"), []byte("b")}}},
		},
		LocalReads: 100, RoundReads: 20, ForwardedReads: 3,
		Clock: &ClockStatus{Doubted: true, Doubts: 4, Pauses: 2, Suspends: 1, Last: "odd", Ago: time.Minute},
	})
	got, err := client.Get(t.Context(), &readleasepb.GetRequest{})
	want := &readleasepb.GetResponse{
		ClusterId: 22, MemberId: 11, Leader: &readleasepb.Member{Id: 11, Name: "one", ClientUrls: []string{"http://c1"}}, Term: 33,
		Policy: "all/key", Order: "key", Ttl: durationpb.New(200 * time.Millisecond), LeaseLeft: durationpb.New(150 * time.Millisecond),
		CommittedIndex: 10, ReleasedIndex: 7, Stalled: []uint64{12},
		HeldUp: &readleasepb.HeldUp{Entries: 1, Waiting: durationpb.New(time.Second), By: []uint64{14, 13}},
		Reads:  &readleasepb.Reads{Local: 100, Rounds: 20, Forwarded: 3},
		Clock:  &readleasepb.Clock{Doubted: true, Doubts: 4, Pauses: 2, Suspends: 1, Last: "odd", LastAgo: durationpb.New(time.Minute)},
		Holders: []*readleasepb.Holder{
			{Member: &readleasepb.Member{Id: 11, Name: "one", ClientUrls: []string{"http://c1"}}, Active: true},
			{
				Member: &readleasepb.Member{Id: 12, Name: "two", ClientUrls: []string{"http://c2"}}, Boot: 5, Grantors: []uint64{11},
				Active: true, Stalled: true, HasIndex: 7, Keys: []*readleasepb.KeyRange{{Key: []byte("a"), RangeEnd: []byte("b")}},
			},
			{
				Member: &readleasepb.Member{Id: 14, Name: "four"}, Boot: 3, Grantors: []uint64{12}, HasIndex: 10,
				RoundTrip: durationpb.New(time.Millisecond),
			},
		},
	}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("get: %v, %v\nwant %v", got, err, want)
	}

	// A quiet member that knows no leader answers, too.
	s.readLeases.Store(&ReadLeaseStatus{Policy: "off", Order: "strict", Committed: 10, Released: 10, Clock: &ClockStatus{Doubts: 1}})
	s.loseLeader(0)
	got, err = client.Get(t.Context(), &readleasepb.GetRequest{})
	if err != nil || got.Leader != nil || got.HeldUp != nil || got.LeaseLeft != nil || len(got.Holders) != 0 {
		t.Errorf("get without leader and leases: %v, %v, want none of either", got, err)
	}
	if c := got.GetClock(); c.GetDoubts() != 1 || c.GetDoubted() {
		t.Errorf("a clock that was doubted once: %v, want it told", c)
	}
}

func TestReadLeaseSet(t *testing.T) {
	s, client := serveReadLeases(t, ReadLeaseStatus{Policy: "leader", Order: "strict"})
	got, err := client.Set(t.Context(), &readleasepb.SetRequest{Policy: "all"})
	if err != nil || got.Previous != "leader" || got.Policy != "all" {
		t.Errorf("set: %v, %v; want that it was leader and is all", got, err)
	}
	for _, policy := range []string{"", "ALL", "some"} {
		_, err = client.Set(t.Context(), &readleasepb.SetRequest{Policy: policy})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "off, leader, all") {
			t.Errorf("set %q: %v, want InvalidArgument and what there is", policy, err)
		}
	}
	_, err = client.Set(t.Context(), &readleasepb.SetRequest{Policy: "static/key"})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "needs cells") {
		t.Errorf("set static/key without cells: %v, want InvalidArgument and what it needs", err)
	}
	if now := s.readLeases.Load().Policy; now != "all" {
		t.Errorf("policy %q after refusals, want all", now)
	}
	for _, cells := range []string{"default = *", ""} { // given once, they stay
		got, err = client.Set(t.Context(), &readleasepb.SetRequest{Policy: "static/key", Cells: cells})
		if err != nil || got.Policy != "static/key" {
			t.Errorf("set static/key with %q: %v, %v", cells, got, err)
		}
	}
	if got.Previous != "static/key" || s.barriers.Load() != 7+2 { // one for each change, and for those without cells another
		t.Errorf("set without cells: was %q after %d barriers, want static/key after one each time", got.Previous, s.barriers.Load())
	}
	s.fail.Store(&rpctypes.ErrGRPCNoLeader)
	if _, err = client.Set(t.Context(), &readleasepb.SetRequest{Policy: "off"}); status.Code(err) != codes.Unavailable {
		t.Errorf("set without a leader: %v, want the backend's error", err)
	}
	if _, err = client.Get(t.Context(), &readleasepb.GetRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("get from a backend that fails: %v, want its error", err)
	}
}

func TestReadLeaseHolders(t *testing.T) {
	holder := func(member uint64, rtt time.Duration, grantors ...uint64) ReadLeaseHolder {
		return ReadLeaseHolder{Member: member, Grantors: grantors, RoundTrip: rtt}
	}
	keyed := func(h ReadLeaseHolder, keys ...KeyRange) ReadLeaseHolder {
		h.Keys = keys
		return h
	}
	span := func(from, to string) KeyRange { return KeyRange{[]byte(from), []byte(to)} }
	ms := time.Millisecond
	for _, tt := range []struct {
		name          string
		left          time.Duration
		holders       []ReadLeaseHolder
		key, rangeEnd string
		want          []uint64
	}{
		{"nobody", 0, nil, "a", "", nil},
		{"itself, though nobody told of it", ms, nil, "a", "", []uint64{11}},
		{"itself no longer, whatever others are bound to", 0, []ReadLeaseHolder{holder(11, 0, 12, 13)}, "a", "", nil},
		{"another with one of three", 0, []ReadLeaseHolder{holder(12, 0, 13)}, "a", "", []uint64{12}},
		{"a voter that nobody is bound to", 0, []ReadLeaseHolder{holder(12, 0)}, "a", "", nil},
		{"a learner needs two", 0, []ReadLeaseHolder{holder(14, 0, 13)}, "a", "", nil},
		{"a learner has two", 0, []ReadLeaseHolder{holder(14, 0, 13, 12)}, "a", "", []uint64{14}},
		{"nobody is bound twice", 0, []ReadLeaseHolder{holder(14, 0, 13, 13)}, "a", "", nil},
		{"a learner's promise binds nobody", 0, []ReadLeaseHolder{holder(12, 0, 14)}, "a", "", nil},
		{"nearest first", ms, []ReadLeaseHolder{holder(14, 0, 12, 13), holder(13, 2*ms, 12), holder(12, 3*ms, 11)}, "a", "", []uint64{11, 13, 12, 14}},
		{"of one key", 0, []ReadLeaseHolder{keyed(holder(12, 0, 13), span("a", "")), keyed(holder(13, 0, 11), span("b", ""))}, "b", "", []uint64{13}},
		{"of part of a range", 0, []ReadLeaseHolder{keyed(holder(12, 0, 13), span("a", "c"))}, "b", "d", nil},
		{"of a range in two parts", 0, []ReadLeaseHolder{keyed(holder(12, 0, 13), span("0", "1"), span("a", "c"), span("c", "e"))}, "b", "d", []uint64{12}},
		{"of a range with a gap", 0, []ReadLeaseHolder{keyed(holder(12, 0, 13), span("a", "b"), span("c", "e"))}, "a", "d", nil},
		{"from a key on", 0, []ReadLeaseHolder{keyed(holder(12, 0, 13), span("a", "\x00"))}, "b", "\x00", []uint64{12}},
		{"from a key on, but not all", 0, []ReadLeaseHolder{keyed(holder(12, 0, 13), span("a", "z"))}, "b", "\x00", nil},
		{"a key and the one behind it", 0, []ReadLeaseHolder{keyed(holder(12, 0, 13), span("a", ""), span("a\x00", ""))}, "a", "a\x00\x00", []uint64{12}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, client := serveReadLeases(t, ReadLeaseStatus{Policy: "all", Order: "strict", Left: tt.left, Holders: tt.holders})
			got, err := client.Holders(t.Context(), &readleasepb.HoldersRequest{Key: []byte(tt.key), RangeEnd: []byte(tt.rangeEnd)})
			if err != nil {
				t.Fatal(err)
			}
			var ids []uint64
			for _, h := range got.Holders {
				ids = append(ids, h.Member.Id)
			}
			if !slices.Equal(ids, tt.want) || got.Leader.Id != 11 || got.MemberId != 11 || got.Policy != "all" || got.Term != 33 {
				t.Errorf("holders %v in %v, want %v", ids, got, tt.want)
			}
		})
	}
}

func TestReadLeaseHoldersOfNothing(t *testing.T) {
	_, client := serveReadLeases(t, ReadLeaseStatus{})
	for _, r := range []*readleasepb.HoldersRequest{
		{}, {RangeEnd: []byte("b")}, {Key: []byte("b"), RangeEnd: []byte("a")}, {Key: []byte("b"), RangeEnd: []byte("b")},
	} {
		if got, err := client.Holders(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("holders of %v: %v, %v; want InvalidArgument", r, got, err)
		}
	}
}

// TestStockServerHasNoReadLeases is what clients meet at a stock etcd, and what an
// implementation that knows nothing says.
func TestStockServerHasNoReadLeases(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	unknown := status.Error(codes.Unimplemented, "not known here")
	s.fail.Store(&unknown)
	for name, err := range map[string]error{
		"no such service": s.conn.Invoke(t.Context(), "/tenure.readlease.v2.ReadLease/Get", &readleasepb.GetRequest{}, &readleasepb.GetResponse{}),
		"not known":       second(readleasepb.NewReadLeaseClient(s.conn).Get(context.Background(), &readleasepb.GetRequest{})),
	} {
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want Unimplemented", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Clients give up etcd's order of revisions only at a member that permits it, and change
// nothing at one that permits nothing.
func TestReadLeaseChanges(t *testing.T) {
	const order = "etcd's order of revisions"
	for _, tt := range []struct {
		may    ReadLeaseChanges
		now    ReadLeaseStatus
		to     string
		cells  string
		denied string // "" is permitted
	}{
		{ChangePolicy, ReadLeaseStatus{Policy: "leader", Order: "strict"}, "all", "", ""},
		{ChangePolicy, ReadLeaseStatus{Policy: "off", Order: "strict"}, "leader", "", ""},
		{ChangePolicy, ReadLeaseStatus{Policy: "leader", Order: "strict"}, "all/key", "", order},
		{ChangePolicy, ReadLeaseStatus{Policy: "off", Order: "strict"}, "static/key", "default = *", order},
		{ChangePolicy, ReadLeaseStatus{Policy: "leader/key", Order: "key"}, "cost/key", "", ""},
		{ChangePolicy, ReadLeaseStatus{Policy: "cost/key", Order: "key"}, "leader", "", ""},
		{ChangeOrder, ReadLeaseStatus{Policy: "leader", Order: "strict"}, "all/key", "", ""},
		{ChangeNothing, ReadLeaseStatus{Policy: "leader", Order: "strict"}, "all", "", "--read-lease-changes none"},
		{ChangeNothing, ReadLeaseStatus{Policy: "cost/key", Order: "key"}, "leader/key", "", "--read-lease-changes none"},
	} {
		s := serve(t, Config{ReadLeaseChanges: tt.may}, watch.Config{})
		s.readLeases.Store(&tt.now)
		client := readleasepb.NewReadLeaseClient(s.conn)
		_, err := client.Set(t.Context(), &readleasepb.SetRequest{Policy: tt.to, Cells: tt.cells})
		if got := s.fake.readLeases.Load().Policy; (got == tt.to) != (tt.denied == "") {
			t.Errorf("%d, %s to %s: it is %s now, want it changed: %v", tt.may, tt.now.Policy, tt.to, got, tt.denied == "")
		}
		if tt.denied == "" && err != nil || tt.denied != "" && (status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), tt.denied)) {
			t.Errorf("%d, %s to %s: %v, want it denied: %q", tt.may, tt.now.Policy, tt.to, err, tt.denied)
		}
	}
	// The order is judged behind a barrier: this member may not know of a change.
	s := serve(t, Config{}, watch.Config{})
	s.readLeases.Store(&ReadLeaseStatus{Policy: "cost/key", Order: "key"})
	before := s.barriers.Load()
	if _, err := readleasepb.NewReadLeaseClient(s.conn).Set(t.Context(), &readleasepb.SetRequest{Policy: "all/key"}); err != nil || s.barriers.Load() == before {
		t.Errorf("set: %v, with %d barriers, want one", err, s.barriers.Load()-before)
	}
}

// A text that divides the keys has a bound, below what would keep a member busy.
func TestReadLeaseCellsHaveABound(t *testing.T) {
	_, client := serveReadLeases(t, ReadLeaseStatus{Policy: "leader/key", Order: "key"})
	for _, tt := range []struct {
		cells string
		good  bool
	}{
		{"default = a" + strings.Repeat("; key:x = a", maxCells-1), true},
		{"default = a" + strings.Repeat("; key:x = a", maxCells), false},
		{"default = a; key:" + strings.Repeat("x", maxCellBytes) + " = a", false},
		{strings.Repeat("x", maxCellBytes), true},
		{strings.Repeat("x", maxCellBytes+1), false},
	} {
		_, err := client.Set(t.Context(), &readleasepb.SetRequest{Policy: "static/key", Cells: tt.cells})
		if tt.good && err != nil || !tt.good && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "at most")) {
			t.Errorf("%d bytes of cells: %v, want it taken: %v", len(tt.cells), err, tt.good)
		}
	}
}

// A text of cells that is incomplete, or comes with a policy that takes none, is the
// client's mistake.
func TestReadLeaseCellsThatCannotBe(t *testing.T) {
	s := serve(t, Config{ReadLeaseChanges: ChangeOrder}, watch.Config{})
	s.readLeases.Store(&ReadLeaseStatus{Policy: "leader/key", Order: "key"})
	for _, r := range []*readleasepb.SetRequest{
		{Policy: "static/key", Cells: "nonsense"},
		{Policy: "cost/key", Cells: "default = a"},
		{Policy: "all", Cells: "default = a"},
		{Policy: "static/key"},
		{Policy: "nonsense"},
	} {
		_, err := readleasepb.NewReadLeaseClient(s.conn).Set(t.Context(), r)
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("policy %q with cells %q: %v, want an invalid argument", r.Policy, r.Cells, err)
		}
		if got := s.fake.readLeases.Load().Policy; got != "leader/key" {
			t.Fatalf("policy %q with cells %q: refused, and the policy is %s now", r.Policy, r.Cells, got)
		}
	}
}

// A change that nobody can be asked about is not made: the error of what had to be known first
// reaches the client, and the policy stays.
func TestReadLeaseChangesThatNobodyCanJudge(t *testing.T) {
	failure := rpctypes.ErrGRPCNoLeader
	static, ordered := &readleasepb.SetRequest{Policy: "static/key"}, &readleasepb.SetRequest{Policy: "all/key"}
	for name, tt := range map[string]struct {
		may  ReadLeaseChanges
		part partly
		r    *readleasepb.SetRequest
	}{
		"cells are kept, and nobody leads":        {ChangeOrder, partly{barrier: failure}, static},
		"cells are kept, and the member stops":    {ChangeOrder, partly{readLeases: failure}, static},
		"the order is given up, and nobody leads": {ChangePolicy, partly{barrier: failure}, ordered},
		"the order is given up, the member stops": {ChangePolicy, partly{readLeases: failure}, ordered},
		"a policy is set, and the member stops":   {ChangePolicy, partly{readLeases: failure}, &readleasepb.SetRequest{Policy: "all"}},
	} {
		tt.part.fake = newFake(t, watch.Config{})
		tt.part.fake.readLeases.Store(&ReadLeaseStatus{Policy: "static/key", Order: "key"})
		s := &readLeaseServer{Server: New(tt.part, Config{ReadLeaseChanges: tt.may})}
		if got, err := s.Set(t.Context(), tt.r); !same(err, failure) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, failure)
		}
		if got := tt.part.fake.readLeases.Load().Policy; got != "static/key" {
			t.Errorf("%s: refused, and the policy is %s now", name, got)
		}
	}
	s := &readLeaseServer{Server: New(partly{fake: newFake(t, watch.Config{}), readLeases: failure}, Config{})}
	if got, err := s.Holders(t.Context(), &readleasepb.HoldersRequest{Key: []byte("a")}); !same(err, failure) {
		t.Errorf("holders by a member that stops: %v, %v, want %v", got, err, failure)
	}
}

// A change that asks for nothing but the strict order asks no other member.
func TestReadLeaseChangesWithinTheOrderAskNobody(t *testing.T) {
	s, client := serveReadLeases(t, ReadLeaseStatus{Policy: "leader", Order: "strict"})
	for i, r := range []*readleasepb.SetRequest{{Policy: "all"}, {Policy: "static/key", Cells: "default = *"}} {
		if _, err := client.Set(t.Context(), r); err != nil || s.barriers.Load() != int64(i+1) {
			t.Errorf("%v: %v behind %d barriers, want none but that of each change", r, err, s.barriers.Load())
		}
	}
}

// The cells are in the answer if they are asked for, and are computed for no other request.
func TestReadLeaseCellsAreToldIfAsked(t *testing.T) {
	made := 0
	_, client := serveReadLeases(t, ReadLeaseStatus{Policy: "static/key", Order: "key", Cells: func() []string {
		made++
		return []string{"key:a=one", "default=two"}
	}})
	for _, asked := range []bool{false, true} {
		got, err := client.Get(t.Context(), &readleasepb.GetRequest{Cells: asked})
		if err != nil || slices.Equal(got.Cells, []string{"key:a=one", "default=two"}) != asked || len(got.Cells) > 0 != asked {
			t.Errorf("asked for %v: cells %q, %v", asked, got.GetCells(), err)
		}
	}
	if made != 1 {
		t.Errorf("cells were made %d times, want once", made)
	}
}

// A holder of part of the keys is one of a range if it says so itself, or if its keys do. A member
// that holds a part, but names no keys, holds none of those that are asked for.
func TestHoldersInPart(t *testing.T) {
	covers := func(key string) func(KeyRange) bool {
		return func(r KeyRange) bool { return string(r.Key) == key && string(r.End) == "c" }
	}
	_, client := serveReadLeases(t, ReadLeaseStatus{Policy: "static/key", Order: "key", Holders: []ReadLeaseHolder{
		{Member: 12, Boot: 9, Grantors: []uint64{11}, Partial: true, Covers: covers("b")},
		{Member: 12, Boot: 4, Grantors: []uint64{11}, Partial: true, Covers: covers("b"), RoundTrip: time.Millisecond},
		{Member: 13, Boot: 2, Grantors: []uint64{11}, Partial: true, Covers: covers("a"), Keys: []KeyRange{{[]byte("a"), []byte("z")}}},
		{Member: 13, Boot: 3, Grantors: []uint64{11}, Partial: true},
		{Member: 99, Boot: 1, Grantors: []uint64{11, 12}, RoundTrip: time.Second},
	}})
	got, err := client.Holders(t.Context(), &readleasepb.HoldersRequest{Key: []byte("b"), RangeEnd: []byte("c")})
	if err != nil {
		t.Fatal(err)
	}
	want := []*readleasepb.Holder{
		{
			Member: &readleasepb.Member{Id: 12, Name: "two", ClientUrls: []string{"http://c2"}}, Boot: 4, Grantors: []uint64{11},
			Active: true, Partial: true, RoundTrip: durationpb.New(time.Millisecond),
		},
		// It is not in the list of members any more, or not yet.
		{Member: &readleasepb.Member{Id: 99}, Boot: 1, Grantors: []uint64{11, 12}, Active: true, RoundTrip: durationpb.New(time.Second)},
		{Member: &readleasepb.Member{Id: 12, Name: "two", ClientUrls: []string{"http://c2"}}, Boot: 9, Grantors: []uint64{11}, Active: true, Partial: true},
	}
	if !slices.EqualFunc(got.Holders, want, func(a, b *readleasepb.Holder) bool { return proto.Equal(a, b) }) {
		t.Errorf("holders of a range: %v\nwant %v", got.Holders, want)
	}
	if got.Policy != "static/key" || got.Order != "key" {
		t.Errorf("the policy of the holders is said to be %s, and the order %s; want static/key, and key", got.Policy, got.Order)
	}
}

// refusing sets no policy.
type refusing struct{ *fake }

func (refusing) SetReadPolicy(context.Context, string, string) error { return rpctypes.ErrGRPCNoLeader }

// A request for a policy that is not set in the end fails.
func TestAReadPolicyThatIsNotSet(t *testing.T) {
	s := &readLeaseServer{Server: New(refusing{newFake(t, watch.Config{})}, Config{})}
	if got, err := s.Set(t.Context(), &readleasepb.SetRequest{Policy: "all"}); !same(err, rpctypes.ErrGRPCNoLeader) {
		t.Errorf("a policy that was not set: %v, %v, want %v", got, err, rpctypes.ErrGRPCNoLeader)
	}
}

// Of cells that there are not nothing is told, though they are asked for.
func TestNoReadLeaseCells(t *testing.T) {
	s, _ := serveReadLeases(t, ReadLeaseStatus{Policy: "all", Order: "strict"})
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("a question for cells that there are not: %v", p)
		}
	}()
	if got, err := (&readLeaseServer{Server: s.server}).Get(t.Context(), &readleasepb.GetRequest{Cells: true}); err != nil || len(got.Cells) != 0 {
		t.Errorf("cells where nothing is divided: %q, %v, want none", got.GetCells(), err)
	}
}

// A range of one key, one of all keys from one on, and one that ends before a key that begins with
// a zero byte are told apart.
func TestBoundsOfKeyRanges(t *testing.T) {
	for _, tt := range []struct{ key, end, from, to string }{
		{"a", "", "a", "a\x00"},
		{"a", "\x00", "a", "none"},
		{"a", "c", "a", "c"},
		{"\x00", "\x00\x01", "\x00", "\x00\x01"},
		{"a", "b\x00", "a", "b\x00"},
	} {
		from, to := KeyRange{Key: []byte(tt.key), End: []byte(tt.end)}.bounds()
		if got := string(to); string(from) != tt.from || to == nil != (tt.to == "none") || to != nil && got != tt.to {
			t.Errorf("from %q to %q: the first key is %q and the first behind %q, want %q and %q", tt.key, tt.end, from, to, tt.from, tt.to)
		}
	}
	// A key may be a part of a longer buffer, such as a request or a list of keys.
	buffer := []byte("abc")
	if _, to := (KeyRange{Key: buffer[:1]}).bounds(); string(to) != "a\x00" || string(buffer) != "abc" {
		t.Errorf("the first behind a is %q, and the bytes behind it are %q, want them as they were", to, buffer)
	}
}

// A member that has a lease is told as a holder once, whether the leader knows of it or not, and one
// that has none is not made one.
func TestAMemberHoldsOnce(t *testing.T) {
	for _, tt := range []struct {
		left  time.Duration
		known []ReadLeaseHolder
		want  []string // of members and their lives
	}{
		{time.Second, nil, []string{"11.0"}},
		{time.Second, []ReadLeaseHolder{{Member: 12}, {Member: 11, Boot: 3}}, []string{"11.3", "12.0"}},
		{time.Second, []ReadLeaseHolder{{Member: 12}}, []string{"11.0", "12.0"}},
		{0, []ReadLeaseHolder{{Member: 12}}, []string{"12.0"}},
		{0, []ReadLeaseHolder{{Member: 13, Boot: 1}, {Member: 12, Boot: 9}, {Member: 12, Boot: 4}}, []string{"12.4", "12.9", "13.1"}},
	} {
		st := ReadLeaseStatus{Left: tt.left, Holders: tt.known}
		st.withSelf(11)
		var got []string
		for _, h := range st.Holders {
			got = append(got, fmt.Sprintf("%d.%d", h.Member, h.Boot))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("with %v left, and %d known, the holders are %s, want %s", tt.left, len(tt.known), got, tt.want)
		}
	}
}

// Changes of read leases are limited by one of three words, and no other is taken for one.
func TestParseReadLeaseChanges(t *testing.T) {
	for word, want := range map[string]ReadLeaseChanges{"policy": ChangePolicy, "order": ChangeOrder, "none": ChangeNothing} {
		if got, err := ParseReadLeaseChanges(word); err != nil || got != want {
			t.Errorf("%s permits %d, %v, want %d", word, got, err, want)
		}
	}
	for _, word := range []string{"", "all", "None", "policy "} {
		if got, err := ParseReadLeaseChanges(word); err == nil {
			t.Errorf("%q is taken for %d, want it refused", word, got)
		}
	}
}
