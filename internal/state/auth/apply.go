package auth

import (
	"bytes"
	"encoding/base64"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// Changes reports whether a message is one that Apply takes.
func Changes(m proto.Message) bool {
	switch m.(type) {
	case *pb.AuthEnableRequest, *pb.AuthDisableRequest, *pb.InternalAuthenticateRequest,
		*pb.AuthUserAddRequest, *pb.AuthUserDeleteRequest, *pb.AuthUserChangePasswordRequest,
		*pb.AuthUserGrantRoleRequest, *pb.AuthUserRevokeRoleRequest,
		*pb.AuthRoleAddRequest, *pb.AuthRoleDeleteRequest,
		*pb.AuthRoleGrantPermissionRequest, *pb.AuthRoleRevokePermissionRequest:
		return true
	}
	return false
}

// Apply returns the state after a request, and its response, which has no header. On an error
// the state stays. Nobody is asked whether the caller may: see Permit. The revision of the
// caller counts for a request to log in only, which changes nothing.
func (s *State) Apply(c Caller, m proto.Message) (*State, proto.Message, error) {
	next := *s
	resp, err := next.apply(c, m)
	if err == nil && next.size > MaxTotalBytes && next.size > s.size {
		err = ErrLimit
	}
	if err != nil {
		return s, nil, err
	}
	return &next, resp, nil
}

func (s *State) apply(c Caller, m proto.Message) (proto.Message, error) {
	switch m := m.(type) {
	case *pb.InternalAuthenticateRequest:
		return &pb.AuthenticateResponse{}, s.logIn(m.Name, c.Revision)
	case *pb.AuthEnableRequest:
		return &pb.AuthEnableResponse{}, s.enable()
	case *pb.AuthDisableRequest:
		s.disable()
		return &pb.AuthDisableResponse{}, nil
	case *pb.AuthUserAddRequest:
		return &pb.AuthUserAddResponse{}, s.addUser(m)
	case *pb.AuthUserDeleteRequest:
		return &pb.AuthUserDeleteResponse{}, s.deleteUser(m.Name)
	case *pb.AuthUserChangePasswordRequest:
		return &pb.AuthUserChangePasswordResponse{}, s.changePassword(m)
	case *pb.AuthUserGrantRoleRequest:
		return &pb.AuthUserGrantRoleResponse{}, s.grantRole(m.User, m.Role)
	case *pb.AuthUserRevokeRoleRequest:
		return &pb.AuthUserRevokeRoleResponse{}, s.revokeRole(m.Name, m.Role)
	case *pb.AuthRoleAddRequest:
		return &pb.AuthRoleAddResponse{}, s.addRole(m.Name)
	case *pb.AuthRoleDeleteRequest:
		return &pb.AuthRoleDeleteResponse{}, s.deleteRole(m.Role)
	case *pb.AuthRoleGrantPermissionRequest:
		return &pb.AuthRoleGrantPermissionResponse{}, s.grantPermission(m.Name, m.Perm)
	case *pb.AuthRoleRevokePermissionRequest:
		return &pb.AuthRoleRevokePermissionResponse{}, s.revokePermission(m.Role, m.Key, m.RangeEnd)
	}
	return nil, errUnknownRequest
}

// enable counts no revision, as in etcd.
func (s *State) enable() error {
	if s.enabled {
		return nil
	}
	root := s.user(Root)
	switch {
	case root == nil:
		return ErrRootUserMissing
	case !root.isRoot():
		return ErrRootRoleMissing
	}
	s.enabled = true
	return nil
}

func (s *State) disable() {
	if s.enabled {
		s.enabled = false
		s.revision++
		s.since = s.revision
	}
}

// logIn judges a user whose password was right at a revision.
func (s *State) logIn(name string, checked uint64) error {
	u := s.user(name)
	switch {
	case !s.enabled:
		return ErrNotEnabled
	case u == nil || u.noPassword:
		return ErrFailed
	case checked < u.since || checked < s.since:
		return ErrOldRevision
	}
	return nil
}

func (s *State) addUser(m *pb.AuthUserAddRequest) error {
	switch {
	case m.Name == "":
		return ErrUserEmpty
	case s.user(m.Name) != nil:
		return ErrUserExists
	case len(s.users) >= MaxUsers || len(m.Name) > MaxNameBytes:
		return ErrLimit
	}
	u := &user{name: m.Name, noPassword: m.Options.GetNoPassword()}
	if !u.noPassword {
		var err error
		if u.hash, err = hashOf(m.HashedPassword); err != nil {
			return err
		}
	}
	s.revision++
	u.since = s.revision
	s.put(u)
	return nil
}

// hashOf reads a hash. A request with a password in plain words is never in the log.
func hashOf(encoded string) ([]byte, error) {
	hash, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(hash) > maxHashBytes {
		return nil, ErrNoPassword
	}
	return hash, nil
}

func (s *State) deleteUser(name string) error {
	if s.enabled && name == Root {
		return ErrInvalidManagement // AU-8
	}
	at, ok := findUser(s.users, name)
	if !ok {
		return ErrUserNotFound
	}
	s.size -= s.users[at].size()
	s.users = slices.Delete(slices.Clone(s.users), at, at+1)
	s.revision++
	return nil
}

func (s *State) changePassword(m *pb.AuthUserChangePasswordRequest) error {
	old := s.user(m.Name)
	if old == nil {
		return ErrUserNotFound
	}
	u := *old
	if !u.noPassword {
		var err error
		if u.hash, err = hashOf(m.HashedPassword); err != nil {
			return err
		}
	}
	s.revision++
	u.since = s.revision
	s.put(&u)
	return nil
}

func (s *State) grantRole(name, role string) error {
	old := s.user(name)
	switch {
	case old == nil:
		return ErrUserNotFound
	case role != Root && s.role(role) == nil:
		return ErrRoleNotFound
	case old.has(role):
		return nil
	case len(old.roles) >= MaxRolesOfUser:
		return ErrLimit
	}
	u := *old
	at, _ := slices.BinarySearch(u.roles, role)
	u.roles = slices.Insert(slices.Clone(u.roles), at, role)
	s.put(&u)
	s.revision++
	return nil
}

func (s *State) revokeRole(name, role string) error {
	if s.enabled && name == Root && role == Root {
		return ErrInvalidManagement // AU-8
	}
	old := s.user(name)
	switch {
	case old == nil:
		return ErrUserNotFound
	case !old.has(role):
		return ErrRoleNotGranted
	}
	s.put(old.without(role))
	s.revision++
	return nil
}

// without is the user, but for a role.
func (u *user) without(role string) *user {
	left := *u
	left.roles = slices.DeleteFunc(slices.Clone(u.roles), func(r string) bool { return r == role })
	return &left
}

func (s *State) addRole(name string) error {
	switch {
	case name == "":
		return ErrRoleEmpty
	case s.role(name) != nil:
		return ErrRoleExists
	case len(s.roles) >= MaxRoles || len(name) > MaxNameBytes:
		return ErrLimit
	}
	s.putRole(&role{name: name})
	s.revision++
	return nil
}

// deleteRole takes the role from all users, too: a later role of that name is another one.
func (s *State) deleteRole(name string) error {
	if s.enabled && name == Root {
		return ErrInvalidManagement // AU-8
	}
	at, ok := findRole(s.roles, name)
	if !ok {
		return ErrRoleNotFound
	}
	s.size -= s.roles[at].size()
	s.roles = slices.Delete(slices.Clone(s.roles), at, at+1)
	users := slices.Clone(s.users)
	for i, u := range users {
		if u.has(name) {
			users[i] = u.without(name)
			s.size -= u.size() - users[i].size()
		}
	}
	s.users = users
	s.revision++
	return nil
}

func (s *State) grantPermission(name string, p *authpb.Permission) error {
	switch {
	case p == nil:
		return ErrPermissionNotGiven
	case !validRange(p.Key, p.RangeEnd), p.PermType < authpb.READ || p.PermType > authpb.READWRITE:
		return ErrInvalidManagement
	}
	old := s.role(name)
	if old == nil {
		return ErrRoleNotFound
	}
	granted := &authpb.Permission{PermType: p.PermType, Key: slices.Clone(p.Key), RangeEnd: slices.Clone(p.RangeEnd)}
	list := slices.Clone(old.permissions)
	if at, ok := findPermission(list, p.Key, p.RangeEnd); ok {
		list[at] = granted
	} else {
		list = slices.Insert(list, at, granted)
	}
	if len(list) > MaxPermissions {
		return ErrLimit
	}
	s.putRole(newRole(name, list))
	s.revision++
	return nil
}

func (s *State) revokePermission(name string, key, end []byte) error {
	old := s.role(name)
	if old == nil {
		return ErrRoleNotFound
	}
	at, ok := findPermission(old.permissions, key, end)
	if !ok {
		return ErrPermissionNotGranted
	}
	s.putRole(newRole(name, slices.Delete(slices.Clone(old.permissions), at, at+1)))
	s.revision++
	return nil
}

func newRole(name string, permissions []*authpb.Permission) *role {
	r := &role{name: name, permissions: permissions}
	r.read, r.write = granting(permissions)
	return r
}

func findPermission(list []*authpb.Permission, key, end []byte) (int, bool) {
	return slices.BinarySearchFunc(list, span{from: string(key), to: string(end)}, func(p *authpb.Permission, s span) int {
		return comparePermissions(p, []byte(s.from), []byte(s.to))
	})
}

// comparePermissions compares a permission by its range.
func comparePermissions(p *authpb.Permission, key, end []byte) int {
	if c := bytes.Compare(p.Key, key); c != 0 {
		return c
	}
	return bytes.Compare(p.RangeEnd, end)
}

// put adds a user, or puts it in the place of the one of its name.
func (s *State) put(u *user) {
	users := slices.Clone(s.users)
	if at, ok := findUser(users, u.name); ok {
		s.size -= users[at].size()
		users[at] = u
	} else {
		users = slices.Insert(users, at, u)
	}
	s.users = users
	s.size += u.size()
}

// putRole adds a role, or puts it in the place of the one of its name.
func (s *State) putRole(r *role) {
	roles := slices.Clone(s.roles)
	if at, ok := findRole(roles, r.name); ok {
		s.size -= roles[at].size()
		roles[at] = r
	} else {
		roles = slices.Insert(roles, at, r)
	}
	s.roles = roles
	s.size += r.size()
}
