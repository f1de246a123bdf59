package diff

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

var authSteps = flag.Int("auth-steps", 0, "steps of users and roles; 0 is 300 with -short, else 1500")

// An authStep is a call by a user, "" for nobody, with a token that it gets when it needs one.
type authStep struct {
	method string
	user   string
	req    proto.Message
}

var (
	authUsers = []string{"root", "u1", "u2", "u3", ""}
	authRoles = []string{"root", "r1", "r2", "r3"}
	authKeys  = []string{"a", "b", "c", "d", "e"}
)

func drawn[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// authRange is a key, or a range that has a key, in one of etcd's notations.
func authRange(r *rand.Rand) (key, end []byte) {
	from := r.IntN(len(authKeys))
	switch key = []byte(authKeys[from]); r.IntN(4) {
	case 0:
		return key, []byte{0}
	case 1:
		if from+1 < len(authKeys) {
			return key, []byte(authKeys[from+1+r.IntN(len(authKeys)-from-1)])
		}
	}
	return key, nil
}

// setup are the steps that every run begins with: root, users that are in force, and leases.
func setup() []authStep {
	noPassword := &authpb.UserAddOptions{NoPassword: true}
	return []authStep{
		{"/etcdserverpb.Auth/AuthEnable", "", &pb.AuthEnableRequest{}},
		{"/etcdserverpb.Auth/Authenticate", "", &pb.AuthenticateRequest{Name: "root", Password: "root"}},
		{"/etcdserverpb.Auth/UserAdd", "", &pb.AuthUserAddRequest{Name: "root", Password: "root"}},
		{"/etcdserverpb.Auth/UserAdd", "", &pb.AuthUserAddRequest{Name: "root", Password: "root"}},
		{"/etcdserverpb.Auth/AuthEnable", "", &pb.AuthEnableRequest{}},
		{"/etcdserverpb.Auth/UserGrantRole", "", &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"}},
		{"/etcdserverpb.Auth/UserAdd", "", &pb.AuthUserAddRequest{Name: "nopw", Options: noPassword}},
		{"/etcdserverpb.Auth/UserAdd", "", &pb.AuthUserAddRequest{}},
		{"/etcdserverpb.Auth/RoleAdd", "", &pb.AuthRoleAddRequest{}},
		{"/etcdserverpb.Auth/UserDelete", "", &pb.AuthUserDeleteRequest{Name: "x"}},
		{"/etcdserverpb.Auth/RoleGrantPermission", "", &pb.AuthRoleGrantPermissionRequest{Name: "x", Perm: &authpb.Permission{Key: []byte("a")}}},
		{"/etcdserverpb.Auth/RoleGrantPermission", "", &pb.AuthRoleGrantPermissionRequest{Name: "x"}},
		{"/etcdserverpb.Auth/AuthStatus", "", &pb.AuthStatusRequest{}},
		{"/etcdserverpb.Auth/AuthEnable", "", &pb.AuthEnableRequest{}},
		{"/etcdserverpb.Auth/AuthEnable", "root", &pb.AuthEnableRequest{}},
		{"/etcdserverpb.Auth/Authenticate", "", &pb.AuthenticateRequest{Name: "nopw", Password: "x"}},
		{"/etcdserverpb.Auth/Authenticate", "", &pb.AuthenticateRequest{Name: "nobody", Password: "x"}},
		{"/etcdserverpb.Lease/LeaseGrant", "root", &pb.LeaseGrantRequest{ID: 1, TTL: 9000}},
		{"/etcdserverpb.Lease/LeaseGrant", "root", &pb.LeaseGrantRequest{ID: 2, TTL: 9000}},
	}
}

// drawAuth draws a step.
func drawAuth(r *rand.Rand) authStep {
	user, role := drawn(r, authUsers), drawn(r, authRoles)
	key, end := authRange(r)
	by := drawn(r, authUsers)
	manage := "root"
	if r.IntN(6) == 0 {
		manage = by
	}
	put := &pb.PutRequest{Key: key, Value: []byte("v"), PrevKv: r.IntN(4) == 0, Lease: max(0, int64(r.IntN(8)-5))}
	get := &pb.RangeRequest{Key: key, RangeEnd: end, Serializable: r.IntN(2) == 0}
	del := &pb.DeleteRangeRequest{Key: key, RangeEnd: end, PrevKv: r.IntN(3) == 0}
	switch r.IntN(29) {
	case 0:
		return authStep{"/etcdserverpb.Auth/UserAdd", manage, &pb.AuthUserAddRequest{Name: user, Password: user}}
	case 1:
		if user == "root" {
			user = "u1"
		}
		return authStep{"/etcdserverpb.Auth/UserDelete", manage, &pb.AuthUserDeleteRequest{Name: user}}
	case 2:
		return authStep{"/etcdserverpb.Auth/RoleAdd", manage, &pb.AuthRoleAddRequest{Name: role}}
	case 3:
		return authStep{"/etcdserverpb.Auth/RoleDelete", manage, &pb.AuthRoleDeleteRequest{Role: role}}
	case 4, 5:
		return authStep{"/etcdserverpb.Auth/UserGrantRole", manage, &pb.AuthUserGrantRoleRequest{User: user, Role: drawn(r, authRoles[1:])}}
	case 6:
		return authStep{"/etcdserverpb.Auth/UserRevokeRole", manage, &pb.AuthUserRevokeRoleRequest{Name: user, Role: role}}
	case 7, 8, 9:
		// One kind for a range of a role: when it is granted again, etcd may keep both.
		kind := authpb.Permission_Type((int(key[0]) + len(end) + len(role)) % 3)
		return authStep{"/etcdserverpb.Auth/RoleGrantPermission", manage, &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: &authpb.Permission{PermType: kind, Key: key, RangeEnd: end}}}
	case 10:
		return authStep{"/etcdserverpb.Auth/RoleRevokePermission", manage, &pb.AuthRoleRevokePermissionRequest{Role: role, Key: key, RangeEnd: end}}
	case 11:
		if user == "" { // nobody may ask for nobody in etcd
			user = "u1"
		}
		return authStep{"/etcdserverpb.Auth/UserGet", by, &pb.AuthUserGetRequest{Name: user}}
	case 12:
		return authStep{"/etcdserverpb.Auth/RoleGet", by, &pb.AuthRoleGetRequest{Role: role}}
	case 13:
		return drawn(r, []authStep{
			{"/etcdserverpb.Auth/UserList", by, &pb.AuthUserListRequest{}}, {"/etcdserverpb.Auth/RoleList", by, &pb.AuthRoleListRequest{}},
			{"/etcdserverpb.Auth/AuthStatus", by, &pb.AuthStatusRequest{}},
			{"/etcdserverpb.Cluster/MemberPromote", by, &pb.MemberPromoteRequest{ID: 99}},
			{"/etcdserverpb.KV/Compact", by, &pb.CompactionRequest{Revision: 1 << 40}},
			{"/etcdserverpb.Maintenance/Alarm", by, &pb.AlarmRequest{}},
			{"/etcdserverpb.Cluster/MemberRemove", by, &pb.MemberRemoveRequest{ID: 99}},
		})
	case 14:
		return drawn(r, []authStep{
			{"/etcdserverpb.Lease/LeaseTimeToLive", by, &pb.LeaseTimeToLiveRequest{ID: 1 + int64(r.IntN(3)), Keys: true}},
			{"/etcdserverpb.Lease/LeaseLeases", by, &pb.LeaseLeasesRequest{}},
			{"/etcdserverpb.Lease/LeaseRevoke", by, &pb.LeaseRevokeRequest{ID: 3}},
		})
	case 15, 16:
		return authStep{"/etcdserverpb.KV/Put", by, put}
	case 17:
		return authStep{"/etcdserverpb.KV/DeleteRange", by, del}
	case 20:
		if user == "" {
			user = "u2"
		}
		return authStep{"/etcdserverpb.Auth/UserChangePassword", manage, &pb.AuthUserChangePasswordRequest{Name: user, Password: user}}
	case 21:
		if by == "root" { // it is in force for all that follows
			by = "u1"
		}
		return drawn(r, []authStep{{"/etcdserverpb.Auth/AuthDisable", by, &pb.AuthDisableRequest{}}, {"/etcdserverpb.Auth/AuthEnable", by, &pb.AuthEnableRequest{}}})
	case 22, 23:
		return drawn(r, []authStep{
			{"/etcdserverpb.Maintenance/Status", by, &pb.StatusRequest{}}, {"/etcdserverpb.Maintenance/Hash", by, &pb.HashRequest{}},
			{"/etcdserverpb.Maintenance/HashKV", by, &pb.HashKVRequest{}}, {"/etcdserverpb.Maintenance/Defragment", by, &pb.DefragmentRequest{}},
			{"/etcdserverpb.Maintenance/MoveLeader", by, &pb.MoveLeaderRequest{TargetID: 99}},
			{"/etcdserverpb.Maintenance/Downgrade", by, &pb.DowngradeRequest{Version: "x"}},
			{"/etcdserverpb.Maintenance/Alarm", by, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE}},
			{"/etcdserverpb.Cluster/MemberList", by, &pb.MemberListRequest{Linearizable: key[0] < 'c'}},
			{"/etcdserverpb.Cluster/MemberAdd", "root", &pb.MemberAddRequest{PeerURLs: []string{"x"}}},
			{"/etcdserverpb.Cluster/MemberUpdate", by, &pb.MemberUpdateRequest{ID: 99, PeerURLs: []string{"http://127.0.0.1:1"}}},
		})
	case 24:
		return drawn(r, []authStep{
			{"/v3lockpb.Lock/Unlock", by, &v3lockpb.UnlockRequest{Key: key}},
			{"/v3electionpb.Election/Leader", by, &v3electionpb.LeaderRequest{Name: key}},
			{"/v3electionpb.Election/Resign", by, &v3electionpb.ResignRequest{Leader: &v3electionpb.LeaderKey{Name: key, Key: key, Rev: 2}}},
		})
	case 25:
		return drawn(r, []authStep{
			{"/etcdserverpb.Lease/LeaseGrant", by, &pb.LeaseGrantRequest{ID: 1 + int64(r.IntN(3)), TTL: 9000}},
			{"/etcdserverpb.Lease/LeaseRevoke", by, &pb.LeaseRevokeRequest{ID: 1 + int64(r.IntN(3))}},
		})
	case 18, 19:
		op := drawn(r, []*pb.RequestOp{
			{Request: &pb.RequestOp_RequestPut{RequestPut: put}}, {Request: &pb.RequestOp_RequestRange{RequestRange: get}}, {Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: del}},
		})
		txn := &pb.TxnRequest{Success: []*pb.RequestOp{op}}
		if r.IntN(2) == 0 {
			txn = &pb.TxnRequest{Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}}}
		}
		if r.IntN(3) == 0 {
			txn.Compare = []*pb.Compare{{Key: []byte(drawn(r, authKeys)), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_Version{}}}
		}
		return authStep{"/etcdserverpb.KV/Txn", by, txn}
	}
	return authStep{"/etcdserverpb.KV/Range", by, get}
}

// authTarget is a server with the tokens that its users have.
type authTarget struct {
	*Target
	tokens map[string]string
}

// answerOf is a message for the answer of a method.
func answerOf(method string) proto.Message {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		panic(err)
	}
	answer, err := protoregistry.GlobalTypes.FindMessageByName(d.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		panic(err)
	}
	return answer.New().Interface()
}

// do makes a call to a member. A user whose token does not count any more logs in again, once.
func (a *authTarget) do(ctx context.Context, s authStep, member int) reply {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := a.overtake(ctx, member); err != nil {
		return reply{err: fmt.Sprintf("%s does not catch up: %v", a.Name, err)}
	}
	for again := true; ; again = false {
		out := ctx
		if token := a.tokens[s.user]; token != "" {
			out = metadata.AppendToOutgoingContext(ctx, "token", token)
		} else if s.user != "" {
			login := &pb.AuthenticateResponse{}
			if a.conn(member).Invoke(ctx, "/etcdserverpb.Auth/Authenticate", &pb.AuthenticateRequest{Name: s.user, Password: s.user}, login) == nil {
				a.tokens[s.user] = login.Token
				continue
			}
		}
		msg := answerOf(s.method)
		err := a.conn(member).Invoke(out, s.method, s.req, msg)
		switch text := status.Convert(err).Message(); {
		case err == nil:
			if login, ok := msg.(*pb.AuthenticateResponse); ok {
				login.Token = ""
			}
			if !strings.HasPrefix(s.method, "/etcdserverpb.KV") && !strings.HasPrefix(s.method, "/etcdserverpb.Auth") && !strings.HasPrefix(s.method, "/etcdserverpb.Lease") {
				return reply{} // other tests compare what it says
			}
			normalize(msg, nil)
			if list, ok := msg.(*pb.LeaseLeasesResponse); ok { // etcd leaves one behind with each call of Resign
				list.Leases = slices.DeleteFunc(list.Leases, func(l *pb.LeaseStatus) bool { return l.ID > chosen })
			}
			if role, ok := msg.(*pb.AuthRoleGetResponse); ok { // etcd has permissions that begin alike in any order, and twice
				slices.SortFunc(role.Perm, func(a, b *authpb.Permission) int {
					return cmp.Or(bytes.Compare(a.Key, b.Key), bytes.Compare(a.RangeEnd, b.RangeEnd))
				})
				role.Perm = slices.CompactFunc(role.Perm, func(a, b *authpb.Permission) bool { return proto.Equal(a, b) })
			}
			return reply{msg: msg}
		case again && a.tokens[s.user] != "" && (text == "etcdserver: invalid auth token" || text == "etcdserver: revision of auth store is old"):
			delete(a.tokens, s.user)
			continue
		case strings.HasPrefix(s.method, "/v3"): // etcd's locks and elections have no codes
			return reply{err: text}
		default:
			return reply{err: fmt.Sprintf("%v: %s", status.Code(err), text)}
		}
	}
}

// TestAuthDifferential gives etcd and Tenure the same changes of users and roles, and calls of users whose
// rights come of them. Not sent: puts with ignore_value, permissions and ranges that end before they begin, and
// watches, of which package etcdapi says how they differ. Of three members, each step goes to one that is drawn.
func TestAuthDifferential(t *testing.T) {
	ofOneAndThree(t, authDifferential)
}

// ofOneAndThree runs a test of servers of one member and of three.
func ofOneAndThree(t *testing.T, test func(t *testing.T, members int)) {
	for _, n := range []int{1, maxMembers} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { test(t, n) })
	}
}

func authDifferential(t *testing.T, members int) {
	n := *authSteps
	if n == 0 {
		n = 1500
		if testing.Short() {
			n = 300
		}
	}
	seed := max(*seedFlag, 1)
	ctx := t.Context()
	a, b := sites(t, ctx, members, "--bcrypt-cost=4")
	etcd, tenure := authTarget{a.Target, map[string]string{}}, authTarget{b.Target, map[string]string{}}
	asked := rand.New(rand.NewPCG(seed, 8))
	draws, steps := rand.New(rand.NewPCG(seed, 7)), setup()
	denied, granted, differences := 0, 0, 0
	for i := range n {
		var s authStep
		if i < len(steps) {
			s = steps[i]
		} else {
			s = drawAuth(draws)
		}
		member := asked.IntN(members)
		want, got := etcd.do(ctx, s, member), tenure.do(ctx, s, member)
		switch {
		case want.err != "":
			denied++
		default:
			granted++
		}
		if !want.equal(got) {
			t.Errorf("seed %d, step %d, %q calls %s %v of member %d:\netcd   %v\ntenure %v", seed, i, s.user, s.method, s.req, member, want, got)
			if differences++; differences > 10 {
				t.FailNow()
			}
		}
	}
	if denied < n/10 || granted < n/10 {
		t.Errorf("%d calls failed and %d did not: the draw says little", denied, granted)
	}
}
