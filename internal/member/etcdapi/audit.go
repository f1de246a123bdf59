package etcdapi

import (
	"context"
	"errors"
	"log/slog"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/peer"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// The log tells each call that changes users, members, the leader or read leases, or takes a
// snapshot, with its caller, and each login that fails (AU-19). No line has a password, a hash, a token, or a value. Names are quoted by the logger.

// audit logs a call of a method that is audited. The context is that of its caller.
func (s *Server) audit(ctx context.Context, method string, request any, err error) {
	line := append([]any{"call", method, "by", caller.Of(ctx).User, "from", origin(ctx)}, subject(request)...)
	if err != nil {
		s.config.Logger.Warn("audit: a call was refused or failed", append(line, "err", err)...)
		return
	}
	s.config.Logger.Info("audit: a call was answered", line...)
}

// auditLogin logs a login that failed, but for those of clients that log in although nobody has to.
func (s *Server) auditLogin(ctx context.Context, name string, err error) {
	if !errors.Is(err, auth.ErrNotEnabled) {
		s.config.Logger.Warn("audit: a login failed", "user", clipped(name), "from", origin(ctx), "err", err)
	}
}

// origin is the address of a caller.
func origin(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// maxLogged is the number of bytes of a name or key that is logged.
const maxLogged = 256

func clipped(s string) string { return s[:min(len(s), maxLogged)] }

// subject tells of a request whom and what it changes.
func subject(request any) []any {
	user := func(name string) any { return slog.String("user", clipped(name)) }
	role := func(name string) any { return slog.String("role", clipped(name)) }
	keys := func(key, end []byte) []any {
		return []any{slog.String("key", clipped(string(key))), slog.String("range_end", clipped(string(end)))}
	}
	member := func(id uint64) any { return slog.Uint64("member", id) }
	switch r := request.(type) {
	case *pb.AuthUserAddRequest:
		return []any{user(r.Name)}
	case *pb.AuthUserDeleteRequest:
		return []any{user(r.Name)}
	case *pb.AuthUserChangePasswordRequest:
		return []any{user(r.Name)}
	case *pb.AuthUserGrantRoleRequest:
		return []any{user(r.User), role(r.Role)}
	case *pb.AuthUserRevokeRoleRequest:
		return []any{user(r.Name), role(r.Role)}
	case *pb.AuthRoleAddRequest:
		return []any{role(r.Name)}
	case *pb.AuthRoleDeleteRequest:
		return []any{role(r.Role)}
	case *pb.AuthRoleGrantPermissionRequest:
		return append(keys(r.Perm.GetKey(), r.Perm.GetRangeEnd()), role(r.Name), slog.String("permission", r.Perm.GetPermType().String()))
	case *pb.AuthRoleRevokePermissionRequest:
		return append(keys(r.Key, r.RangeEnd), role(r.Role))
	case *pb.MemberAddRequest:
		return []any{slog.Any("peer_urls", r.PeerURLs), slog.Bool("learner", r.IsLearner)}
	case *pb.MemberUpdateRequest:
		return []any{member(r.ID), slog.Any("peer_urls", r.PeerURLs)}
	case *pb.MemberRemoveRequest:
		return []any{member(r.ID)}
	case *pb.MemberPromoteRequest:
		return []any{member(r.ID)}
	case *pb.MoveLeaderRequest:
		return []any{member(r.TargetID)}
	case *readleasepb.SetRequest:
		return []any{slog.String("policy", clipped(r.Policy))}
	}
	return nil
}
