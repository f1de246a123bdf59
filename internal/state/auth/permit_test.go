package auth

import (
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func get(key, end string) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
}
func put(key string) *pb.PutRequest { return &pb.PutRequest{Key: []byte(key)} }
func del(key, end string) *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
}

func opGet(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: get(key, "")}}
}
func opPut(m *pb.PutRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: m}}
}
func opDel(m *pb.DeleteRangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: m}}
}
func opTxn(m *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: m}}
}
func then(ops ...*pb.RequestOp) *pb.TxnRequest { return &pb.TxnRequest{Success: ops} }
func els(ops ...*pb.RequestOp) *pb.TxnRequest  { return &pb.TxnRequest{Failure: ops} }

// Everybody may do everything until users are in force, and members always.
func TestNotInForce(t *testing.T) {
	s := newStage(t)
	s.do(addUser("root"), grantRole("root", "root"))
	for _, m := range []proto.Message{put("a"), get("a", ""), &pb.CompactionRequest{}, &pb.TxnRequest{}, &pb.AuthEnableRequest{}, &pb.PutResponse{}} {
		s.wants(Caller{}, m, nil)
	}
	s.do(enable())
	for _, m := range []proto.Message{put("a"), &pb.CompactionRequest{}, &pb.PutRequest{Key: []byte("a"), Lease: 7}} {
		s.wants(Caller{}, m, ErrUserEmpty)
		s.wants(Caller{Member: true}, m, nil)
	}
	if s.MayManage(Caller{Member: true}) != nil || s.MayAsk(Caller{Member: true}) != nil {
		t.Error("a member may not do what it wants")
	}
}

// Where nothing is known, nothing is permitted (AU-1).
func TestNoState(t *testing.T) {
	s := &stage{nil, t}
	if !s.Enabled() || s.Used() {
		t.Errorf("got enabled %v, used %v, want true, false", s.Enabled(), s.Used())
	}
	for _, m := range []proto.Message{put("a"), get("a", ""), &pb.AuthStatusRequest{}, &pb.CompactionRequest{}} {
		s.wants(Caller{User: "root", Revision: 9}, m, ErrDenied)
		s.wants(Caller{}, m, ErrDenied)
	}
	if s.MayAsk(Caller{User: "root"}) != ErrDenied || s.MayManage(Caller{User: "root"}) != ErrDenied {
		t.Error("somebody may ask without a state")
	}
	if _, err := s.Recognize("root", 0); err != ErrInvalidToken {
		t.Errorf("recognised without a state: %v", err)
	}
}

// A kind of request without a rule is denied to everybody (AU-1).
func TestUnknownRequests(t *testing.T) {
	s := inForce(t)
	for _, m := range []proto.Message{&pb.PutResponse{}, &pb.LeaseCheckpointRequest{}, &pb.Member{}, nil} {
		s.wants(s.as("root"), m, ErrDenied)
	}
	for _, op := range []*pb.RequestOp{
		{}, nil, {Request: &pb.RequestOp_RequestPut{}}, {Request: &pb.RequestOp_RequestDeleteRange{}},
	} {
		s.wants(s.as("root"), then(op), ErrDenied)
	}
}

func TestKeys(t *testing.T) {
	s := inForce(t, grant("r", reads, "r", "s"), grant("r", writes, "w", "x"), grant("r", both, "b", ""), addRole("q"), addUser("bob"))
	ann := s.as("ann")
	for _, k := range []string{"r", "r\x00", "rz", "b"} {
		s.wants(ann, get(k, ""), nil)
	}
	for _, k := range []string{"q\xff", "s", "w", "b\x00", "a", "x"} {
		s.wants(ann, get(k, ""), ErrDenied)
	}
	for _, k := range []string{"w", "wz", "b"} {
		s.wants(ann, put(k), nil)
		s.wants(ann, del(k, ""), nil)
	}
	for _, k := range []string{"r", "x", "v\xff", "c"} {
		s.wants(ann, put(k), ErrDenied)
		s.wants(ann, del(k, ""), ErrDenied)
	}
	s.wants(ann, get("r", "s"), nil)
	s.wants(ann, get("r", "s\x00"), ErrDenied)
	s.wants(ann, get("r", "\x00"), ErrDenied)
	s.wants(ann, del("w", "x"), nil)
	s.wants(ann, del("w", "y"), ErrDenied)
	s.wants(ann, del("r", "s"), ErrDenied)
	root := s.as("root")
	for _, m := range []proto.Message{get("\x00", "\x00"), put("zzz"), del("\x00", "\x00"), &pb.PutRequest{Key: []byte("z"), Lease: 7, PrevKv: true}} {
		s.wants(root, m, nil)
		s.wants(s.as("bob"), m, ErrDenied)
		s.wants(s.as("nobody"), m, ErrDenied)
		s.wants(Caller{Revision: s.Revision()}, m, ErrUserEmpty)
	}
}

// A put that tells what was there before needs the right to read (AU-5).
func TestWhatWasBefore(t *testing.T) {
	s := inForce(t, grant("r", writes, "w", "x"), grant("r", both, "b", "c"))
	ann := s.as("ann")
	for _, m := range []*pb.PutRequest{{PrevKv: true}, {IgnoreValue: true}} {
		m.Key = []byte("w")
		s.wants(ann, m, ErrDenied)
		s.wants(ann, then(opPut(m)), ErrDenied)
		m.Key = []byte("b")
		s.wants(ann, m, nil)
		s.wants(ann, then(opPut(m)), nil)
	}
	for _, end := range []string{"", "w5"} {
		m := del("w", end)
		m.PrevKv = true
		s.wants(ann, m, ErrDenied)
		s.wants(ann, then(opDel(m)), ErrDenied)
	}
	m := del("b", "c")
	m.PrevKv = true
	s.wants(ann, m, nil)
}

// All that a transaction might do has to be permitted, at any depth (AU-3).
func TestTransactions(t *testing.T) {
	s := inForce(t, grant("r", both, "a", "b"))
	ann := s.as("ann")
	deep := func(m *pb.TxnRequest) *pb.TxnRequest { return then(opTxn(els(opTxn(m)))) }
	for _, ok := range []*pb.TxnRequest{{}, then(opGet("a")), els(opPut(put("a1"))), then(opDel(del("a", "b")))} {
		s.wants(ann, ok, nil)
		s.wants(ann, deep(ok), nil)
		s.wants(Caller{Revision: s.Revision()}, ok, ErrUserEmpty)
		s.wants(s.as("nobody"), ok, ErrDenied)
	}
	for _, bad := range []*pb.TxnRequest{
		then(opGet("b")), els(opGet("b")), then(opGet("a"), opPut(put("b"))), els(opPut(put("b"))),
		then(opDel(del("a", "c"))), els(opDel(del("\x00", "\x00"))),
		{Compare: []*pb.Compare{{Key: []byte("b")}}},
		{Compare: []*pb.Compare{{Key: []byte("a")}, {Key: []byte("a"), RangeEnd: []byte("c")}}},
		then(opPut(&pb.PutRequest{Key: []byte("a"), Lease: 7})),
	} {
		s.wants(ann, bad, ErrDenied)
		s.wants(ann, deep(bad), ErrDenied)
		s.wants(s.as("root"), deep(bad), nil)
	}
}

// A watch starts at the least key if it names none, and "\0" is no end (AU-2).
func TestWatches(t *testing.T) {
	watch := func(key, end string) *pb.WatchCreateRequest {
		return &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end)}
	}
	s := inForce(t, grant("r", reads, "a", "b"))
	ann := s.as("ann")
	s.wants(ann, watch("a", ""), nil)
	s.wants(ann, watch("a", "b"), nil)
	for _, m := range []*pb.WatchCreateRequest{watch("a", "\x00"), watch("", ""), watch("", "\x00"), watch("", "b"), watch("b", "")} {
		s.wants(ann, m, ErrDenied)
	}
	s.do(grant("r", reads, "\x00", "\x00"))
	for _, m := range []*pb.WatchCreateRequest{watch("a", "\x00"), watch("", ""), watch("", "\x00")} {
		s.wants(s.as("ann"), m, nil)
	}
}

// A lease is as good as its keys (AU-4).
func TestLeases(t *testing.T) {
	s := inForce(t, grant("r", writes, "a", ""), grant("r", reads, "b", ""), addUser("bob"))
	ann, bob := s.as("ann"), s.as("bob")
	for id, want := range map[int64]error{7: ErrDenied, 8: nil, 9: nil} {
		s.wants(ann, &pb.LeaseRevokeRequest{ID: id}, want)
		s.wants(ann, &pb.LeaseKeepAliveRequest{ID: id}, want)
		s.wants(ann, &pb.PutRequest{Key: []byte("a"), Lease: id}, want)
	}
	for _, m := range []proto.Message{
		&pb.LeaseGrantRequest{}, &pb.LeaseLeasesRequest{}, &pb.LeaseRevokeRequest{ID: 9}, &pb.LeaseKeepAliveRequest{ID: 9},
		&pb.LeaseTimeToLiveRequest{ID: 7}, &pb.LeaseTimeToLiveRequest{ID: 9, Keys: true},
	} {
		s.wants(bob, m, nil)
		s.wants(Caller{}, m, ErrUserEmpty)
		s.wants(s.as("nobody"), m, ErrUserNotFound)
	}
	s.wants(bob, &pb.LeaseTimeToLiveRequest{ID: 7, Keys: true}, ErrDenied)
	s.wants(ann, &pb.LeaseTimeToLiveRequest{ID: 8, Keys: true}, ErrDenied)
	s.do(grant("r", reads, "a", "c"))
	s.wants(s.as("ann"), &pb.LeaseTimeToLiveRequest{ID: 7, Keys: true}, nil)
	for _, m := range []proto.Message{&pb.LeaseRevokeRequest{ID: 7}, &pb.LeaseKeepAliveRequest{ID: 7}, &pb.LeaseTimeToLiveRequest{ID: 7, Keys: true}} {
		s.wants(s.as("root"), m, nil)
	}
}

// Requests that concern the cluster are for root (AU-6).
func TestManagement(t *testing.T) {
	s := inForce(t, grant("r", both, "\x00", "\x00"), addUser("boss"), grantRole("boss", "root"), addRole("q"), addUser("bob"))
	forRoot := []proto.Message{
		&pb.CompactionRequest{}, &pb.DefragmentRequest{}, &pb.HashRequest{}, &pb.HashKVRequest{}, &pb.SnapshotRequest{},
		&pb.MoveLeaderRequest{}, &pb.DowngradeRequest{}, &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE}, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE},
		&pb.MemberAddRequest{}, &pb.MemberRemoveRequest{}, &pb.MemberUpdateRequest{}, &pb.MemberPromoteRequest{},
		enable(), disable(), addUser("x"), deleteUser("x"), password("ann", "x"), grantRole("x", "y"), revokeRole("x", "y"), addRole("x"),
		deleteRole("x"), grant("r", reads, "x", ""), revoke("r", "x", ""), &pb.AuthUserListRequest{}, &pb.AuthRoleListRequest{},
		&pb.AuthUserGetRequest{Name: "bob"}, &pb.AuthRoleGetRequest{Role: "q"},
	}
	for _, m := range forRoot {
		s.wants(s.as("root"), m, nil)
		s.wants(s.as("boss"), m, nil)
		s.wants(s.as("ann"), m, ErrDenied)
		s.wants(s.as("nobody"), m, ErrUserNotFound)
		s.wants(Caller{}, m, ErrUserEmpty)
	}
	forUsers := []proto.Message{
		&pb.StatusRequest{}, &pb.MemberListRequest{}, &pb.AlarmRequest{Action: pb.AlarmRequest_GET},
		&pb.AuthUserGetRequest{Name: "ann"}, &pb.AuthRoleGetRequest{Role: "r"},
	}
	for _, m := range forUsers {
		s.wants(s.as("root"), m, nil)
		s.wants(s.as("ann"), m, nil)
		s.wants(s.as("nobody"), m, ErrUserNotFound)
		s.wants(Caller{}, m, ErrUserEmpty)
	}
	for _, m := range []proto.Message{&pb.AuthStatusRequest{}, &pb.AuthenticateRequest{}, &pb.InternalAuthenticateRequest{}} {
		s.wants(Caller{}, m, nil)
	}
	if err := s.MayManage(s.as("ann")); err != ErrDenied {
		t.Errorf("a user who is not root manages: %v", err)
	}
}

// A request that was authorised before a change is old (AU-7).
func TestOldRequests(t *testing.T) {
	s := inForce(t, grant("r", both, "a", ""), addUser("boss"), grantRole("boss", "root"))
	ann, boss, root := s.as("ann"), s.as("boss"), s.as("root")
	s.do(addRole("other"))
	s.wants(ann, get("a", ""), ErrOldRevision)
	s.wants(root, put("a"), ErrOldRevision)
	s.wants(ann, &pb.LeaseGrantRequest{}, nil)
	s.wants(boss, addUser("x"), nil)
	s.do(password("boss", "x"), deleteUser("ann"), addUser("ann"))
	s.wants(boss, addUser("x"), ErrOldRevision)
	s.wants(ann, &pb.LeaseGrantRequest{}, ErrOldRevision)
	s.wants(root, addUser("x"), nil)
	s.do(disable(), enable())
	s.wants(root, addUser("x"), ErrOldRevision)
	s.wants(s.as("root"), addUser("x"), nil)
}

// A proof of a user counts until its password changes, or users are switched off (AU-10).
func TestRecognize(t *testing.T) {
	s := inForce(t)
	check := func(name string, proved uint64, want error) {
		t.Helper()
		got, err := s.Recognize(name, proved)
		if err != want || err == nil && got != s.as(name) || err != nil && got != (Caller{}) {
			t.Errorf("%s, proved at %d of %d: got %+v, %v, want the error %v", name, proved, s.Revision(), got, err, want)
		}
	}
	was := s.Revision()
	check("ann", was, nil)
	check("ann", was+1, ErrInvalidToken)
	check("nobody", was, ErrInvalidToken)
	s.do(addRole("q"), grantRole("ann", "q"), password("root", "x"))
	check("ann", was, nil)
	check("root", was, ErrInvalidToken)
	s.do(password("ann", "y"))
	check("ann", was, ErrInvalidToken)
	check("ann", s.Revision(), nil)
	was = s.Revision()
	s.do(disable())
	check("ann", was, ErrInvalidToken)
	check("ann", s.Revision(), ErrInvalidToken)
	s.do(enable())
	check("ann", was, ErrInvalidToken)
	check("ann", s.Revision(), nil)
	if got := s.Named("nobody"); got != s.as("nobody") {
		t.Errorf("named by a certificate: got %+v, want %+v", got, s.as("nobody"))
	}
}

// Nothing is allocated while users are not in force.
func TestPermitAllocatesNothing(t *testing.T) {
	s, m := New(), put("a")
	if got := testing.AllocsPerRun(100, func() { _ = s.Permit(Caller{}, m, nil) }); got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
	on := inForce(t, grant("r", both, "a", "b"))
	c, r := on.as("ann"), get("a", "")
	if got := testing.AllocsPerRun(100, func() { _ = on.Permit(c, r, nil) }); got != 0 {
		t.Errorf("for a read of one key in force: got %v allocations, want none", got)
	}
}

// The keys of the model: few, so that ranges meet, with neighbours and successors.
var universe = []string{"\x00", "a", "a\x00", "a\x00\x00", "ab", "b", "b\x00", "c", "d", "\xff", "\xff\xff"}

var ends = []string{"", "", "\x00", "a\x00", "ab", "b", "b\x00", "c", "e", "\xff", "\xff\xff\x00"}

// inRange is the definition of a range, as etcd has it.
func inRange(k, key, end string) bool {
	switch end {
	case "":
		return k == key
	case "\x00":
		return k >= key
	}
	return k >= key && k < end
}

// bounds are the keys at which a range may begin or end. They decide: whatever is true of one
// of them is true of all keys up to the next.
func bounds() (keys []string) {
	for _, k := range universe {
		keys = append(keys, k, k+"\x00")
	}
	for _, k := range ends {
		if k != "" {
			keys = append(keys, k)
		}
	}
	return keys
}

// The permissions of all roles together decide, key by key (AU-2).
func TestRangesAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newStage(t)
		s.do(addUser("root"), grantRole("root", "root"), addUser("ann"))
		for i := range rapid.IntRange(1, 3).Draw(rt, "roles") {
			name := fmt.Sprint(i)
			s.do(addRole(name), grantRole("ann", name))
			for range rapid.IntRange(0, 4).Draw(rt, "permissions") {
				m := grant(name, rapid.SampledFrom([]authpb.Permission_Type{reads, writes, both}).Draw(rt, "type"),
					rapid.SampledFrom(universe).Draw(rt, "from"), rapid.SampledFrom(ends).Draw(rt, "to"))
				_ = s.try(m) // which may be of an empty range
			}
		}
		s.do(enable())
		var granted []*authpb.Permission
		for _, r := range s.roles {
			granted = append(granted, r.permissions...)
		}
		for range 20 {
			key, end := rapid.SampledFrom(universe).Draw(rt, "key"), rapid.SampledFrom(ends).Draw(rt, "end")
			if end != "" && end != "\x00" && end <= key {
				continue // an empty range
			}
			want := true
			for _, k := range bounds() {
				if inRange(k, key, end) {
					some := false
					for _, p := range granted {
						some = some || p.PermType != writes && inRange(k, string(p.Key), string(p.RangeEnd))
					}
					want = want && some
				}
			}
			if got := s.Permit(s.as("ann"), get(key, end), nil) == nil; got != want {
				rt.Errorf("%q to %q with %v: permitted %v, want %v", key, end, granted, got, want)
			}
		}
	})
}

// All roles of a user cover a range together, and permissions that touch or meet are one.
func TestRangesOfSeveralRoles(t *testing.T) {
	s := inForce(t, grant("r", reads, "a", "c"), grant("r", reads, "c", "e"), grant("r", reads, "e", "k"), grant("r", reads, "f", "g"),
		addRole("q"), grantRole("ann", "q"), grant("q", reads, "k", "m"), grant("q", reads, "b", "d"), grant("q", reads, "x", "\x00"))
	ann := s.as("ann")
	for _, to := range []string{"b", "c", "d", "e", "g", "k", "l", "m"} {
		s.wants(ann, get("a", to), nil)
	}
	s.wants(ann, get("y", "\x00"), nil)
	s.wants(ann, get("l", ""), nil)
	for _, to := range []string{"m\x00", "y", "\x00"} {
		s.wants(ann, get("a", to), ErrDenied)
	}
	s.wants(ann, get("m", ""), ErrDenied)
	s.wants(ann, put("l"), ErrDenied)
}

// An empty range needs what lies between its end and its key.
func TestEmptyRanges(t *testing.T) {
	s := inForce(t, grant("r", reads, "b", "d"))
	s.wants(s.as("ann"), get("c", "b"), nil)
	s.wants(s.as("ann"), get("c", "c"), nil)
	s.wants(s.as("ann"), get("c", "a"), ErrDenied)
	s.wants(s.as("ann"), get("d", "c"), ErrDenied)
}

// A user that was recognised too long ago may not even look at itself, nor at its roles.
func TestOldUsersDoNotLookAtThemselves(t *testing.T) {
	s := inForce(t)
	ann, gone := s.as("ann"), Caller{User: "gone", Revision: s.Revision()}
	user, role := &pb.AuthUserGetRequest{Name: "ann"}, &pb.AuthRoleGetRequest{Role: "r"}
	s.wants(ann, user, nil)
	s.wants(ann, role, nil)
	s.wants(gone, &pb.AuthUserGetRequest{Name: "gone"}, ErrUserNotFound)
	s.do(password("ann", "new"))
	s.wants(ann, user, ErrOldRevision)
	s.wants(ann, role, ErrOldRevision)
}
