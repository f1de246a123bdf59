package replica

import (
	"strconv"

	"github.com/tenure-lease/tenure/internal/state/auth"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// A Token is a proof that a user has logged in. Its bearer knows a secret, of which the log
// has a digest only, and the index of the entry. Members remember tokens beside the state,
// since they end with time.
type Token struct {
	Digest   string
	Index    uint64
	User     string
	Revision uint64 // of the users at that entry: see auth.State.Recognize
}

// wrapUsers makes one type of all requests that change users and roles: etcd's. It returns nil
// for others.
func wrapUsers(m proto.Message) *pb.InternalRaftRequest {
	switch m := m.(type) {
	case *pb.AuthEnableRequest:
		return &pb.InternalRaftRequest{AuthEnable: m}
	case *pb.AuthDisableRequest:
		return &pb.InternalRaftRequest{AuthDisable: m}
	case *pb.InternalAuthenticateRequest:
		return &pb.InternalRaftRequest{Authenticate: m}
	case *pb.AuthUserAddRequest:
		return &pb.InternalRaftRequest{AuthUserAdd: m}
	case *pb.AuthUserDeleteRequest:
		return &pb.InternalRaftRequest{AuthUserDelete: m}
	case *pb.AuthUserChangePasswordRequest:
		return &pb.InternalRaftRequest{AuthUserChangePassword: m}
	case *pb.AuthUserGrantRoleRequest:
		return &pb.InternalRaftRequest{AuthUserGrantRole: m}
	case *pb.AuthUserRevokeRoleRequest:
		return &pb.InternalRaftRequest{AuthUserRevokeRole: m}
	case *pb.AuthRoleAddRequest:
		return &pb.InternalRaftRequest{AuthRoleAdd: m}
	case *pb.AuthRoleDeleteRequest:
		return &pb.InternalRaftRequest{AuthRoleDelete: m}
	case *pb.AuthRoleGrantPermissionRequest:
		return &pb.InternalRaftRequest{AuthRoleGrantPermission: m}
	case *pb.AuthRoleRevokePermissionRequest:
		return &pb.InternalRaftRequest{AuthRoleRevokePermission: m}
	}
	return nil
}

// unwrapUsers is the inverse of wrapUsers. It returns nil if nothing is asked for.
func unwrapUsers(r *pb.InternalRaftRequest) proto.Message {
	switch {
	case r.AuthEnable != nil:
		return r.AuthEnable
	case r.AuthDisable != nil:
		return r.AuthDisable
	case r.Authenticate != nil:
		return r.Authenticate
	case r.AuthUserAdd != nil:
		return r.AuthUserAdd
	case r.AuthUserDelete != nil:
		return r.AuthUserDelete
	case r.AuthUserChangePassword != nil:
		return r.AuthUserChangePassword
	case r.AuthUserGrantRole != nil:
		return r.AuthUserGrantRole
	case r.AuthUserRevokeRole != nil:
		return r.AuthUserRevokeRole
	case r.AuthRoleAdd != nil:
		return r.AuthRoleAdd
	case r.AuthRoleDelete != nil:
		return r.AuthRoleDelete
	case r.AuthRoleGrantPermission != nil:
		return r.AuthRoleGrantPermission
	case r.AuthRoleRevokePermission != nil:
		return r.AuthRoleRevokePermission
	}
	return nil
}

// asksUsers reports whether a request asks for a change of users, or to log in.
func asksUsers(requests []Propose) bool {
	return len(requests) > 0 && len(requests[0].Body) > 0 && requests[0].Body[0] == kindUsers
}

// solitary reports whether the first of some requests has a batch to itself: a leader may
// refuse it for good, and others with it.
func solitary(requests []Propose) bool {
	return asksChange(requests) || asksUsers(requests) || asksAlarm(requests)
}

// admitUsers decides about a batch that changes users (AU-11). Members of versions from before
// users would end at it, so all have to be known to be of a later one. That is asked for until
// there are users: from then on each member has read of them.
func (r *Replica) admitUsers(term uint64, entry []byte, requests []Propose) verdict {
	if !r.usersUsed && !r.levels.all(r.reads.everyone, r.cfg.ID, usersLevel) {
		if r.now.Sub(r.leadership.since) < r.cfg.electionTimeout() {
			return notNow // they may be about to say so
		}
		return usersUnknown
	}
	if !r.append(term, entry, requests) {
		return notNow
	}
	return accepted
}

// Users returns the users and roles, as they are at Index.
func (a *Applier) Users() *auth.State { return a.users }

// TakeTokens returns the tokens that were given since it was called last. They are to be known
// before a result is answered.
func (a *Applier) TakeTokens() []Token {
	list := a.tokens
	a.tokens = nil
	return list
}

// permits judges a request by the users at its place in the log (AU-12): the same at all members.
// Nobody judges what members do by themselves. Changes of the members and of read leases are
// in force before they are applied, and so are judged by the member that proposes them.
func (a *Applier) permits(c auth.Caller, kind byte, m proto.Message) error {
	if !a.users.Enabled() {
		return nil
	}
	switch kind {
	case kindCheckpoint, kindExpire, kindMember, kindReadPolicy, kindReadCells, kindRead:
		return nil
	case kindUsers:
		m = unwrapUsers(m.(*pb.InternalRaftRequest))
	}
	return a.users.Permit(c, m, func(lease int64) [][]byte { return a.store.View().LeaseKeys(lease) })
}

// changeUsers applies a change of users. A user that logs in gets the index of the entry, as
// the end of its token.
func (a *Applier) changeUsers(c auth.Caller, r *pb.InternalRaftRequest) (proto.Message, error) {
	m := unwrapUsers(r)
	users, resp, err := a.users.Apply(c, m)
	if err != nil {
		return nil, err
	}
	a.users = users
	if login, ok := m.(*pb.InternalAuthenticateRequest); ok {
		index := a.index + 1
		a.tokens = append(a.tokens, Token{Digest: login.SimpleToken, Index: index, User: login.Name, Revision: users.Revision()})
		return &pb.AuthenticateResponse{Header: a.header(), Token: strconv.FormatUint(index, 10)}, nil
	}
	return withHeader(resp, a.header()), nil
}

// withHeader gives a response its header.
func withHeader(resp proto.Message, h *pb.ResponseHeader) proto.Message {
	switch resp := resp.(type) {
	case *pb.AuthEnableResponse:
		resp.Header = h
	case *pb.AuthDisableResponse:
		resp.Header = h
	case *pb.AuthUserAddResponse:
		resp.Header = h
	case *pb.AuthUserDeleteResponse:
		resp.Header = h
	case *pb.AuthUserChangePasswordResponse:
		resp.Header = h
	case *pb.AuthUserGrantRoleResponse:
		resp.Header = h
	case *pb.AuthUserRevokeRoleResponse:
		resp.Header = h
	case *pb.AuthRoleAddResponse:
		resp.Header = h
	case *pb.AuthRoleDeleteResponse:
		resp.Header = h
	case *pb.AuthRoleGrantPermissionResponse:
		resp.Header = h
	case *pb.AuthRoleRevokePermissionResponse:
		resp.Header = h
	}
	return resp
}
