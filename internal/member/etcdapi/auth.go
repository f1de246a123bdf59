package etcdapi

import (
	"context"
	"encoding/base64"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// authServer serves users and roles. Its calls were judged by their rules; changes are judged
// once more where they are applied.
type authServer struct {
	*Server
	pb.UnsafeAuthServer
}

// AuthEnable puts users in force: from then on a call needs one that may do it.
func (s *authServer) AuthEnable(ctx context.Context, r *pb.AuthEnableRequest) (*pb.AuthEnableResponse, error) {
	return propose[*pb.AuthEnableResponse](ctx, s.Server, r)
}

// AuthDisable lets everybody do everything again.
func (s *authServer) AuthDisable(ctx context.Context, r *pb.AuthDisableRequest) (*pb.AuthDisableResponse, error) {
	return propose[*pb.AuthDisableResponse](ctx, s.Server, r)
}

// AuthStatus tells everybody whether users are in force.
func (s *authServer) AuthStatus(ctx context.Context, _ *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	if err := s.backend.Barrier(ctx); err != nil {
		return nil, toStatus(err)
	}
	users := s.backend.Users()
	return &pb.AuthStatusResponse{Header: s.header(), Enabled: users.Enabled(), AuthRevision: users.Revision()}, nil
}

// Authenticate gives a token for a name and its password. The request keeps no password.
func (s *authServer) Authenticate(ctx context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	password := r.Password
	r.Password = ""
	if s.config.Logins == nil {
		return nil, toStatus(auth.ErrNotEnabled)
	}
	token, err := s.config.Logins.Authenticate(ctx, r.Name, password)
	if err != nil {
		s.auditLogin(ctx, r.Name, err)
		return nil, toStatus(err)
	}
	return &pb.AuthenticateResponse{Header: s.header(), Token: token}, nil
}

// hash computes the hash of a password, as it is in requests of the log. The log never has a
// password, nor a hash that a client has brought (AU-18).
func (s *authServer) hash(ctx context.Context, password string) (string, error) {
	if s.config.Logins == nil {
		return "", auth.ErrNotEnabled
	}
	hash, err := s.config.Logins.Passwords().Hash(ctx, password)
	return base64.StdEncoding.EncodeToString(hash), err
}

// UserAdd makes a user, whose name is judged before its password is hashed.
func (s *authServer) UserAdd(ctx context.Context, r *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	password := r.Password
	r.Password = ""
	if r.Name == "" {
		return nil, toStatus(auth.ErrUserEmpty)
	}
	add := &pb.AuthUserAddRequest{Name: r.Name, Options: &authpb.UserAddOptions{NoPassword: r.Options.GetNoPassword()}}
	if !add.Options.NoPassword {
		var err error
		if add.HashedPassword, err = s.hash(ctx, password); err != nil {
			return nil, toStatus(err)
		}
	}
	return propose[*pb.AuthUserAddResponse](ctx, s.Server, add)
}

// UserGet lists the roles of a user.
func (s *authServer) UserGet(ctx context.Context, r *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	users, err := s.usersFor(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	roles, err := users.RolesOf(r.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.AuthUserGetResponse{Header: s.header(), Roles: roles}, nil
}

// UserList lists the users.
func (s *authServer) UserList(ctx context.Context, r *pb.AuthUserListRequest) (*pb.AuthUserListResponse, error) {
	users, err := s.usersFor(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.AuthUserListResponse{Header: s.header(), Users: users.Users()}, nil
}

// UserDelete removes a user.
func (s *authServer) UserDelete(ctx context.Context, r *pb.AuthUserDeleteRequest) (*pb.AuthUserDeleteResponse, error) {
	return propose[*pb.AuthUserDeleteResponse](ctx, s.Server, r)
}

// UserChangePassword gives a user another password.
func (s *authServer) UserChangePassword(ctx context.Context, r *pb.AuthUserChangePasswordRequest) (*pb.AuthUserChangePasswordResponse, error) {
	password := r.Password
	r.Password = ""
	hash, err := s.hash(ctx, password)
	if err != nil {
		return nil, toStatus(err)
	}
	return propose[*pb.AuthUserChangePasswordResponse](ctx, s.Server, &pb.AuthUserChangePasswordRequest{Name: r.Name, HashedPassword: hash})
}

// UserGrantRole gives a role to a user.
func (s *authServer) UserGrantRole(ctx context.Context, r *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	return propose[*pb.AuthUserGrantRoleResponse](ctx, s.Server, r)
}

// UserRevokeRole takes a role from a user.
func (s *authServer) UserRevokeRole(ctx context.Context, r *pb.AuthUserRevokeRoleRequest) (*pb.AuthUserRevokeRoleResponse, error) {
	return propose[*pb.AuthUserRevokeRoleResponse](ctx, s.Server, r)
}

// RoleAdd makes a role, without permissions.
func (s *authServer) RoleAdd(ctx context.Context, r *pb.AuthRoleAddRequest) (*pb.AuthRoleAddResponse, error) {
	return propose[*pb.AuthRoleAddResponse](ctx, s.Server, r)
}

// RoleGet lists the permissions of a role.
func (s *authServer) RoleGet(ctx context.Context, r *pb.AuthRoleGetRequest) (*pb.AuthRoleGetResponse, error) {
	users, err := s.usersFor(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	permissions, err := users.PermissionsOf(r.Role)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.AuthRoleGetResponse{Header: s.header(), Perm: permissions}, nil
}

// RoleList lists the roles.
func (s *authServer) RoleList(ctx context.Context, r *pb.AuthRoleListRequest) (*pb.AuthRoleListResponse, error) {
	users, err := s.usersFor(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.AuthRoleListResponse{Header: s.header(), Roles: users.Roles()}, nil
}

// RoleDelete removes a role, and takes it from all users.
func (s *authServer) RoleDelete(ctx context.Context, r *pb.AuthRoleDeleteRequest) (*pb.AuthRoleDeleteResponse, error) {
	return propose[*pb.AuthRoleDeleteResponse](ctx, s.Server, r)
}

// RoleGrantPermission gives a permission to a role.
func (s *authServer) RoleGrantPermission(ctx context.Context, r *pb.AuthRoleGrantPermissionRequest) (*pb.AuthRoleGrantPermissionResponse, error) {
	return propose[*pb.AuthRoleGrantPermissionResponse](ctx, s.Server, r)
}

// RoleRevokePermission takes a permission from a role.
func (s *authServer) RoleRevokePermission(ctx context.Context, r *pb.AuthRoleRevokePermissionRequest) (*pb.AuthRoleRevokePermissionResponse, error) {
	return propose[*pb.AuthRoleRevokePermissionResponse](ctx, s.Server, r)
}

// usersFor returns the users behind a barrier, for a question that they answer and by which its
// caller is judged.
func (s *authServer) usersFor(ctx context.Context, question proto.Message) (*auth.State, error) {
	if err := s.backend.Barrier(ctx); err != nil {
		return nil, err
	}
	users := s.backend.Users()
	return users, users.Permit(caller.Of(ctx), question, nil)
}
