package etcdapi

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"golang.org/x/crypto/bcrypt"
)

// serveUsers serves a fake at which root and ann are in force.
func serveUsers(t testing.TB, c Config) *served {
	t.Helper()
	f := newFake(t, watch.Config{})
	f.withLogins(t, &c)
	f.enableUsers(t)
	return f.serve(t, c)
}

// withLogins lets the users of a fake log in.
func (f *fake) withLogins(t testing.TB, c *Config) {
	t.Helper()
	a, err := login.New(f, login.Config{Cost: bcrypt.MinCost})
	if err != nil {
		t.Fatal(err)
	}
	f.assigned, c.Logins = a.Assigned, a
}

// as is a context of a user that has logged in.
func (s *served) as(user string) context.Context {
	s.t.Helper()
	token, err := s.server.config.Logins.Authenticate(s.t.Context(), user, user)
	if err != nil {
		s.t.Fatal(err)
	}
	return metadata.AppendToOutgoingContext(s.t.Context(), "token", token)
}

// methods are those of all services that a server has.
func methods(s *Server) map[string]grpc.MethodInfo {
	g := grpc.NewServer(s.Options()...)
	defer g.Stop()
	s.Register(g)
	all := map[string]grpc.MethodInfo{}
	for name, service := range g.GetServiceInfo() {
		for _, m := range service.Methods {
			all["/"+name+"/"+m.Name] = m
		}
	}
	return all
}

func TestEveryMethodHasARule(t *testing.T) {
	s := New(newFake(t, watch.Config{}), Config{})
	all := methods(s)
	if len(all) < 57 {
		t.Errorf("%d methods, want those of all services", len(all))
	}
	for name := range all {
		if _, ok := rules[name]; !ok {
			t.Errorf("%s has no rule that says who may call it", name)
		}
	}
	for name := range rules {
		if _, ok := all[name]; !ok {
			t.Errorf("there is a rule for %s, and no such method", name)
		}
	}
	for name, r := range rules {
		if (r.may == nil) != (r.by != byState && r.by != byBarrier) {
			t.Errorf("%s: the rule says by whom it is judged, and not how, or how and not by whom", name)
		}
	}
	if _, _, err := s.authorize(t.Context(), "/etcdserverpb.KV/New", nil); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a method without a rule: %v, want it to be refused, whether users are in force or not", err)
	}
}

// A methodCall is one of a method, by ann, who may read and write what begins with "a/", and
// read "r".
type methodCall struct {
	method  string
	request proto.Message // nil is an empty one
	refused error         // nil: not for want of rights
}

const mayNot = "not for want of rights"

func rangeOf(key, end string) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
}

func txn(ops ...*pb.RequestOp) *pb.TxnRequest { return &pb.TxnRequest{Success: ops} }

func nested(t *pb.TxnRequest) *pb.TxnRequest {
	return &pb.TxnRequest{Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}}}
}

// annCalls are calls of all methods: lease 7 is attached to "a/1", lease 8 to "b".
func annCalls() []methodCall {
	denied := rpctypes.ErrGRPCPermissionDenied
	list := []methodCall{
		{pb.KV_Range_FullMethodName, rangeOf("a/", "a0"), nil},
		{pb.KV_Range_FullMethodName, rangeOf("a/", "a1"), denied},
		{pb.KV_Range_FullMethodName, rangeOf("a/", "\x00"), denied},
		{pb.KV_Range_FullMethodName, rangeOf("\x00", "\x00"), denied},
		{pb.KV_Range_FullMethodName, &pb.RangeRequest{Key: []byte("b"), Serializable: true}, denied},
		{pb.KV_Range_FullMethodName, &pb.RangeRequest{Key: []byte("a/1"), Serializable: true}, nil},
		{pb.KV_Range_FullMethodName, &pb.RangeRequest{Key: []byte("b"), CountOnly: true}, denied},
		{pb.KV_RangeStream_FullMethodName, rangeOf("a/1", ""), nil},
		{pb.KV_RangeStream_FullMethodName, rangeOf("b", ""), denied},
		{pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("a/2")}, nil},
		{pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("r")}, denied},
		{pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("a/2"), Lease: 8}, denied},
		{pb.KV_DeleteRange_FullMethodName, &pb.DeleteRangeRequest{Key: []byte("a/2")}, nil},
		{pb.KV_DeleteRange_FullMethodName, &pb.DeleteRangeRequest{Key: []byte("a/"), RangeEnd: []byte{0}}, denied},
		{pb.KV_Txn_FullMethodName, txn(rangeOp(rangeOf("a/1", ""))), nil},
		{pb.KV_Txn_FullMethodName, txn(rangeOp(rangeOf("b", ""))), denied},
		{pb.KV_Txn_FullMethodName, nested(nested(txn(putOp([]byte("b"), nil, 0)))), denied}, // CVE-2026-33343
		{pb.KV_Txn_FullMethodName, nested(nested(txn(rangeOp(rangeOf("b", ""))))), denied},
		{pb.KV_Txn_FullMethodName, nested(txn(rangeOp(&pb.RangeRequest{Key: []byte("b"), Serializable: true}))), denied},
		{pb.KV_Txn_FullMethodName, &pb.TxnRequest{Compare: []*pb.Compare{createdAt([]byte("b"), 0)}}, denied},
		{pb.KV_Compact_FullMethodName, &pb.CompactionRequest{Revision: 2}, denied}, // CVE-2026-33413

		{pb.Lease_LeaseGrant_FullMethodName, &pb.LeaseGrantRequest{ID: 9, TTL: 60}, nil},
		{pb.Lease_LeaseRevoke_FullMethodName, &pb.LeaseRevokeRequest{ID: 8}, denied},
		{pb.Lease_LeaseRevoke_FullMethodName, &pb.LeaseRevokeRequest{ID: 9}, nil},
		{pb.Lease_LeaseKeepAlive_FullMethodName, &pb.LeaseKeepAliveRequest{ID: 7}, nil},
		{pb.Lease_LeaseKeepAlive_FullMethodName, &pb.LeaseKeepAliveRequest{ID: 8}, denied},
		{pb.Lease_LeaseTimeToLive_FullMethodName, &pb.LeaseTimeToLiveRequest{ID: 8}, nil},
		{pb.Lease_LeaseTimeToLive_FullMethodName, &pb.LeaseTimeToLiveRequest{ID: 7, Keys: true}, nil},
		{pb.Lease_LeaseTimeToLive_FullMethodName, &pb.LeaseTimeToLiveRequest{ID: 8, Keys: true}, denied},
		{pb.Lease_LeaseLeases_FullMethodName, nil, denied},

		{pb.Cluster_MemberList_FullMethodName, nil, nil},
		{pb.Cluster_MemberList_FullMethodName, &pb.MemberListRequest{Linearizable: true}, nil},
		{pb.Maintenance_Status_FullMethodName, nil, nil},
		{pb.Maintenance_Alarm_FullMethodName, &pb.AlarmRequest{Action: pb.AlarmRequest_GET}, nil},
		{pb.Maintenance_Alarm_FullMethodName, &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE}, denied},
		{pb.Maintenance_Alarm_FullMethodName, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE}, denied},

		{pb.Auth_AuthStatus_FullMethodName, nil, nil},
		{pb.Auth_Authenticate_FullMethodName, &pb.AuthenticateRequest{Name: "ann", Password: "ann"}, nil},
		{pb.Auth_UserGet_FullMethodName, &pb.AuthUserGetRequest{Name: "ann"}, nil},
		{pb.Auth_UserGet_FullMethodName, &pb.AuthUserGetRequest{Name: "root"}, denied},
		{pb.Auth_RoleGet_FullMethodName, &pb.AuthRoleGetRequest{Role: "anns"}, nil},
		{pb.Auth_RoleGet_FullMethodName, &pb.AuthRoleGetRequest{Role: "root"}, denied},
		{pb.Auth_UserChangePassword_FullMethodName, &pb.AuthUserChangePasswordRequest{Name: "ann"}, denied},

		{v3lockpb.Lock_Lock_FullMethodName, &v3lockpb.LockRequest{Name: []byte("a/lock")}, nil},
		{v3lockpb.Lock_Lock_FullMethodName, &v3lockpb.LockRequest{Name: []byte("b")}, denied},
		{v3lockpb.Lock_Unlock_FullMethodName, &v3lockpb.UnlockRequest{Key: []byte("a/lock/1")}, nil},
		{v3lockpb.Lock_Unlock_FullMethodName, &v3lockpb.UnlockRequest{Key: []byte("b/1")}, denied},
		{v3electionpb.Election_Campaign_FullMethodName, &v3electionpb.CampaignRequest{Name: []byte("a/elect"), Lease: 7}, nil},
		{v3electionpb.Election_Campaign_FullMethodName, &v3electionpb.CampaignRequest{Name: []byte("b")}, denied},
		{v3electionpb.Election_Leader_FullMethodName, &v3electionpb.LeaderRequest{Name: []byte("a/elect")}, nil},
		{v3electionpb.Election_Leader_FullMethodName, &v3electionpb.LeaderRequest{Name: []byte("b")}, denied},
		{v3electionpb.Election_Observe_FullMethodName, &v3electionpb.LeaderRequest{Name: []byte("a/elect")}, nil},
		{v3electionpb.Election_Observe_FullMethodName, &v3electionpb.LeaderRequest{Name: []byte("b")}, denied},
		{v3electionpb.Election_Proclaim_FullMethodName, &v3electionpb.ProclaimRequest{Leader: &v3electionpb.LeaderKey{Key: []byte("b/1")}}, denied},
		{v3electionpb.Election_Resign_FullMethodName, &v3electionpb.ResignRequest{Leader: &v3electionpb.LeaderKey{Key: []byte("b/1")}}, denied},

		{readleasepb.ReadLease_Holders_FullMethodName, &readleasepb.HoldersRequest{Key: []byte("a/1")}, nil},
		{readleasepb.ReadLease_Holders_FullMethodName, &readleasepb.HoldersRequest{Key: []byte("b")}, denied},
		{readleasepb.ReadLease_Holders_FullMethodName, &readleasepb.HoldersRequest{Key: []byte("a/1"), RangeEnd: []byte("c")}, denied},
		{readleasepb.ReadLease_Set_FullMethodName, &readleasepb.SetRequest{Policy: "off"}, denied},
	}
	for _, rest := range []string{ // only root may, whatever is asked for
		pb.Cluster_MemberAdd_FullMethodName, pb.Cluster_MemberRemove_FullMethodName, pb.Cluster_MemberUpdate_FullMethodName,
		pb.Cluster_MemberPromote_FullMethodName, pb.Maintenance_Defragment_FullMethodName, pb.Maintenance_Hash_FullMethodName,
		pb.Maintenance_HashKV_FullMethodName, pb.Maintenance_Snapshot_FullMethodName, pb.Maintenance_MoveLeader_FullMethodName,
		pb.Maintenance_Downgrade_FullMethodName, pb.Auth_AuthEnable_FullMethodName, pb.Auth_AuthDisable_FullMethodName,
		pb.Auth_UserAdd_FullMethodName, pb.Auth_UserList_FullMethodName, pb.Auth_UserDelete_FullMethodName,
		pb.Auth_UserGrantRole_FullMethodName, pb.Auth_UserRevokeRole_FullMethodName, pb.Auth_RoleAdd_FullMethodName,
		pb.Auth_RoleList_FullMethodName, pb.Auth_RoleDelete_FullMethodName, pb.Auth_RoleGrantPermission_FullMethodName,
		pb.Auth_RoleRevokePermission_FullMethodName, readleasepb.ReadLease_Get_FullMethodName,
	} {
		list = append(list, methodCall{rest, nil, denied})
	}
	return list
}

// call makes a call of any method, and returns the error of its first answer.
func (s *served) call(ctx context.Context, method string, request proto.Message) error {
	s.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(slices.Collect(splitMethod(method))[0]))
	if err != nil {
		s.t.Fatal(err)
	}
	m := d.(protoreflect.MethodDescriptor)
	if request == nil {
		request = dynamicpb.NewMessage(m.Input())
	}
	stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(dynamicpb.NewMessage(m.Output())); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// splitMethod gives the name of a method as its descriptor has it.
func splitMethod(method string) func(func(string) bool) {
	return func(yield func(string) bool) {
		name := []byte(method[1:])
		for i, c := range name {
			if c == '/' {
				name[i] = '.'
			}
		}
		yield(string(name))
	}
}

// Each method is closed to nobody and to invalid tokens, open to root, and to ann as her rights say.
func TestRightsOfEachMethod(t *testing.T) {
	s := serveUsers(t, Config{})
	s.be(t, &pb.LeaseGrantRequest{ID: 7, TTL: 600}, &pb.LeaseGrantRequest{ID: 8, TTL: 600},
		&pb.PutRequest{Key: []byte("a/1"), Lease: 7}, &pb.PutRequest{Key: []byte("b"), Lease: 8}, &pb.PutRequest{Key: []byte("a/elect/0")},
		&pb.DeleteRangeRequest{Key: []byte("a/elect/0")})
	left := methods(s.server)
	invalid := metadata.AppendToOutgoingContext(t.Context(), "token", "xxx.9")
	for _, c := range annCalls() {
		delete(left, c.method)
		anybody := rules[c.method].by == byNobody
		if err := s.call(t.Context(), c.method, c.request); same(err, rpctypes.ErrGRPCUserEmpty) == anybody {
			t.Errorf("%s %v by nobody: %v, want it for anybody: %v", c.method, c.request, err, anybody)
		}
		if err := s.call(invalid, c.method, c.request); same(err, rpctypes.ErrGRPCInvalidAuthToken) == anybody {
			t.Errorf("%s %v with an invalid token: %v, want it for anybody: %v", c.method, c.request, err, anybody)
		}
		err := s.call(s.as("ann"), c.method, c.request)
		if lacks := same(err, rpctypes.ErrGRPCPermissionDenied); lacks != (c.refused != nil) {
			t.Errorf("%s %v by ann: %v, want %v", c.method, c.request, err, cmpOr(c.refused, mayNot))
		}
	}
	delete(left, pb.Watch_Watch_FullMethodName) // see TestWatchRights
	for name := range left {
		if rules[name].by != byNobody {
			t.Errorf("%s is not tried", name)
		}
	}
	if s.readLeases.Load().Policy != "off" || len(s.Members()) != 1 {
		t.Errorf("calls that were refused have changed something: policy %q, members %v", s.readLeases.Load().Policy, s.Members())
	}
	for _, method := range slices.Sorted(maps.Keys(methods(s.server))) {
		if rules[method].by == byNobody || method == pb.Auth_AuthDisable_FullMethodName || method == pb.Watch_Watch_FullMethodName ||
			method == v3lockpb.Lock_Lock_FullMethodName || method == v3electionpb.Election_Campaign_FullMethodName || method == v3electionpb.Election_Observe_FullMethodName {
			continue // without a name these wait
		}
		if err := s.call(s.as("root"), method, nil); status.Code(err) == codes.PermissionDenied || same(err, rpctypes.ErrGRPCUserEmpty) && method != pb.Auth_UserAdd_FullMethodName {
			t.Errorf("%s by root: %v, want it to be permitted", method, err)
		}
	}
}

// While users are not in force, a call and an event cost no allocation more.
func TestUsersThatAreNotInForceCostNothing(t *testing.T) {
	f := newFake(t, watch.Config{})
	s, ctx := New(f, Config{}), t.Context()
	rights := newWatchRights(s, nil)
	put, event := &pb.PutRequest{Key: []byte("k")}, &watch.Response{WatchID: 5, Events: make([]*watch.Event, 1)}
	for name, do := range map[string]func(){
		"a put":     func() { s.authorize(ctx, pb.KV_Put_FullMethodName, put) },
		"an event":  func() { rights.show(event) },
		"a renewal": func() { s.mayRenew(ctx, nil) },
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s costs %v allocations for users that are not in force, want none", name, n)
		}
	}
}

// A call that needs a user is refused to nobody before its handler sees it, whatever the handler does.
func TestNobodyIsRefusedBeforeACallIsHandled(t *testing.T) {
	s := serveUsers(t, Config{})
	for method, r := range rules {
		request := proto.Message(&pb.AuthEnableRequest{})
		if method == readleasepb.ReadLease_Holders_FullMethodName {
			request = &readleasepb.HoldersRequest{}
		}
		_, _, err := s.server.authorize(t.Context(), method, request)
		if open := r.by == byNobody || r.by == byMessage; !same(err, rpctypes.ErrGRPCUserEmpty) && !open || err != nil && open {
			t.Errorf("%s by nobody: %v before it is handled, want it open: %v", method, err, open)
		}
	}
}

func cmpOr(err error, text string) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// While users are not in force, tokens and names are not looked at.
func TestWithoutUsersEverybodyMay(t *testing.T) {
	s := serve(t, Config{CertificateUsers: true}, watch.Config{})
	for _, token := range []string{"", "xxx"} {
		if err := s.call(metadata.AppendToOutgoingContext(t.Context(), "token", token), pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Errorf("a put with the token %q: %v", token, err)
		}
	}
	s.be(t, permissionless()...)
	if err := s.call(t.Context(), pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("k")}); err != nil {
		t.Errorf("a put while there are users that are not in force: %v", err)
	}
}

func permissionless() []proto.Message {
	return []proto.Message{&pb.AuthUserAddRequest{Name: "root", Options: &authpb.UserAddOptions{NoPassword: true}}}
}
