package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// A rule says how the calls of a method are judged while users are in force (AU-14).
type rule struct {
	by  judgement
	may func(users *auth.State, c auth.Caller, request any) error
	// audited calls change the cluster or its users: each is logged.
	audited bool
}

// A judgement tells where a call is judged.
type judgement uint8

const (
	// byNobody is for what anybody may ask, without a token.
	byNobody judgement = iota
	// byHandler is for calls that are judged with the state that answers them, or at their
	// place in the log. They need a user; the handler or the backend does the rest.
	byHandler
	// byMessage is for streams whose handler identifies and judges each message, as etcd does.
	byMessage
	// byState is for calls that may says enough about, by the published state.
	byState
	// byBarrier is the same behind a barrier: no change of users that was acknowledged before is
	// overlooked. Of what it lets pass, members and read leases are judged nowhere else.
	byBarrier
)

// anyUser permits what shows no keys and changes nothing.
func anyUser(users *auth.State, c auth.Caller, _ any) error { return users.MayAsk(c) }

// onlyRoot permits what concerns all of the cluster.
func onlyRoot(users *auth.State, c auth.Caller, _ any) error { return users.MayManage(c) }

// byKind leaves it to the rules of package auth, which has one for each kind of request.
func byKind(users *auth.State, c auth.Caller, request any) error {
	return users.Permit(c, request.(proto.Message), nil)
}

// mayReadAsked permits a question about some keys to those who may read them.
func mayReadAsked(users *auth.State, c auth.Caller, request any) error {
	r := request.(*readleasepb.HoldersRequest)
	return users.Permit(c, &pb.RangeRequest{Key: r.Key, RangeEnd: r.RangeEnd}, nil)
}

// rules has one for each method of each service. A method without one is refused.
var rules = map[string]rule{
	pb.KV_Range_FullMethodName:       {by: byHandler},
	pb.KV_RangeStream_FullMethodName: {by: byHandler},
	pb.KV_Put_FullMethodName:         {by: byHandler},
	pb.KV_DeleteRange_FullMethodName: {by: byHandler},
	pb.KV_Txn_FullMethodName:         {by: byHandler},
	pb.KV_Compact_FullMethodName:     {by: byHandler},

	pb.Watch_Watch_FullMethodName: {by: byMessage},

	pb.Lease_LeaseGrant_FullMethodName:      {by: byHandler},
	pb.Lease_LeaseRevoke_FullMethodName:     {by: byHandler},
	pb.Lease_LeaseKeepAlive_FullMethodName:  {by: byMessage},
	pb.Lease_LeaseTimeToLive_FullMethodName: {by: byState, may: anyUser}, // and its keys by the handler
	pb.Lease_LeaseLeases_FullMethodName:     {by: byHandler},

	pb.Cluster_MemberList_FullMethodName:    {by: byState, may: anyUser},
	pb.Cluster_MemberAdd_FullMethodName:     {by: byBarrier, may: onlyRoot, audited: true},
	pb.Cluster_MemberRemove_FullMethodName:  {by: byBarrier, may: onlyRoot, audited: true},
	pb.Cluster_MemberUpdate_FullMethodName:  {by: byBarrier, may: onlyRoot, audited: true},
	pb.Cluster_MemberPromote_FullMethodName: {by: byBarrier, may: onlyRoot, audited: true},

	pb.Maintenance_Status_FullMethodName:     {by: byState, may: anyUser},
	pb.Maintenance_Alarm_FullMethodName:      {by: byState, may: byKind},
	pb.Maintenance_Defragment_FullMethodName: {by: byState, may: onlyRoot},
	pb.Maintenance_Hash_FullMethodName:       {by: byState, may: onlyRoot},
	pb.Maintenance_HashKV_FullMethodName:     {by: byState, may: onlyRoot},
	pb.Maintenance_Snapshot_FullMethodName:   {by: byState, may: onlyRoot, audited: true},
	pb.Maintenance_MoveLeader_FullMethodName: {by: byState, may: onlyRoot, audited: true},
	pb.Maintenance_Downgrade_FullMethodName:  {by: byState, may: onlyRoot, audited: true},

	pb.Auth_AuthStatus_FullMethodName:           {by: byNobody},
	pb.Auth_Authenticate_FullMethodName:         {by: byNobody},
	pb.Auth_AuthEnable_FullMethodName:           {by: byBarrier, may: byKind, audited: true},
	pb.Auth_AuthDisable_FullMethodName:          {by: byBarrier, may: byKind, audited: true},
	pb.Auth_UserAdd_FullMethodName:              {by: byBarrier, may: byKind, audited: true},
	pb.Auth_UserGet_FullMethodName:              {by: byHandler},
	pb.Auth_UserList_FullMethodName:             {by: byHandler},
	pb.Auth_UserDelete_FullMethodName:           {by: byBarrier, may: byKind, audited: true},
	pb.Auth_UserChangePassword_FullMethodName:   {by: byBarrier, may: byKind, audited: true},
	pb.Auth_UserGrantRole_FullMethodName:        {by: byBarrier, may: byKind, audited: true},
	pb.Auth_UserRevokeRole_FullMethodName:       {by: byBarrier, may: byKind, audited: true},
	pb.Auth_RoleAdd_FullMethodName:              {by: byBarrier, may: byKind, audited: true},
	pb.Auth_RoleGet_FullMethodName:              {by: byHandler},
	pb.Auth_RoleList_FullMethodName:             {by: byHandler},
	pb.Auth_RoleDelete_FullMethodName:           {by: byBarrier, may: byKind, audited: true},
	pb.Auth_RoleGrantPermission_FullMethodName:  {by: byBarrier, may: byKind, audited: true},
	pb.Auth_RoleRevokePermission_FullMethodName: {by: byBarrier, may: byKind, audited: true},

	v3lockpb.Lock_Lock_FullMethodName:             {by: byHandler},
	v3lockpb.Lock_Unlock_FullMethodName:           {by: byHandler},
	v3electionpb.Election_Campaign_FullMethodName: {by: byHandler},
	v3electionpb.Election_Proclaim_FullMethodName: {by: byHandler},
	v3electionpb.Election_Leader_FullMethodName:   {by: byHandler},
	v3electionpb.Election_Observe_FullMethodName:  {by: byHandler},
	v3electionpb.Election_Resign_FullMethodName:   {by: byHandler},

	// Get tells of keys of all users.
	readleasepb.ReadLease_Get_FullMethodName:     {by: byState, may: onlyRoot},
	readleasepb.ReadLease_Set_FullMethodName:     {by: byBarrier, may: onlyRoot, audited: true},
	readleasepb.ReadLease_Holders_FullMethodName: {by: byState, may: mayReadAsked},

	grpc_health_v1.Health_Check_FullMethodName:                                   {by: byNobody},
	grpc_health_v1.Health_List_FullMethodName:                                    {by: byNobody},
	grpc_health_v1.Health_Watch_FullMethodName:                                   {by: byNobody},
	grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName:      {by: byNobody},
	grpc_reflection_v1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: {by: byNobody},
}

var errNoRule = status.Error(codes.PermissionDenied, "tenure: nobody has said who may call this method")

// authorize judges a call before it is handled, as far as its rule says. It returns the context
// of its caller. A stream has no request yet. Errors have a status.
func (s *Server) authorize(ctx context.Context, method string, request any) (context.Context, rule, error) {
	r, ok := rules[method]
	if !ok {
		return ctx, r, errNoRule
	}
	switch r.by {
	case byNobody, byMessage:
		return ctx, r, nil
	case byBarrier:
		if err := s.backend.Barrier(ctx); err != nil {
			return ctx, r, toStatus(err)
		}
	}
	if !s.backend.Users().Enabled() {
		return ctx, r, nil
	}
	c, err := s.identify(ctx)
	if err == nil && c.User == "" {
		err = auth.ErrUserEmpty
	}
	if err == nil && r.may != nil {
		err = r.may(s.backend.Users(), c, request)
	}
	return caller.With(ctx, c), r, toStatus(err)
}

// permit judges a request that touches no lease, by the users of the published state.
func (s *Server) permit(ctx context.Context, request proto.Message) error {
	return s.backend.Users().Permit(caller.Of(ctx), request, nil)
}

// asNow returns a context whose caller is judged by the users as they are now. A call may last
// for long: what its caller proved at its begin counts for as long as AU-10 says.
func (s *Server) asNow(ctx context.Context) context.Context {
	c, users := caller.Of(ctx), s.backend.Users()
	if c.User == "" || c.Revision == users.Revision() {
		return ctx
	}
	if now, err := users.Recognize(c.User, c.Revision); err == nil {
		return caller.With(ctx, now)
	}
	return ctx
}
