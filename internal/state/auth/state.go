package auth

import (
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
)

// Root is the name of the user without whom users cannot be in force, and of the role that
// may do everything.
const Root = "root"

// State is the users and roles at one revision. It never changes, and any number of
// goroutines may read it. Of the nil State nothing is known, and it permits nothing.
type State struct {
	users    []*user // by name
	roles    []*role // by name
	enabled  bool
	revision uint64
	since    uint64 // the revision at which users were last switched off
	size     int    // what counts towards MaxTotalBytes
}

// user is never changed.
type user struct {
	name       string
	hash       []byte
	noPassword bool
	roles      []string // sorted
	since      uint64   // the revision at which it was made, or got its password
}

// role is never changed.
type role struct {
	name        string
	permissions []*authpb.Permission // by key and end
	read, write spans
}

// New returns the state of a cluster that never had users. Its revision is 1.
func New() *State { return &State{revision: 1} }

// Enabled reports whether users are in force. They count as in force while nothing is known.
func (s *State) Enabled() bool { return s == nil || s.enabled }

// Revision counts the changes.
func (s *State) Revision() uint64 {
	if s == nil {
		return 0
	}
	return s.revision
}

// Used reports whether there ever was a change.
func (s *State) Used() bool { return s != nil && (s.revision > 1 || s.enabled) }

func (s *State) user(name string) *user {
	if at, ok := findUser(s.users, name); ok {
		return s.users[at]
	}
	return nil
}

func (s *State) role(name string) *role {
	if at, ok := findRole(s.roles, name); ok {
		return s.roles[at]
	}
	return nil
}

func findUser(users []*user, name string) (int, bool) {
	return slices.BinarySearchFunc(users, name, func(u *user, name string) int { return cmp.Compare(u.name, name) })
}

func findRole(roles []*role, name string) (int, bool) {
	return slices.BinarySearchFunc(roles, name, func(r *role, name string) int { return cmp.Compare(r.name, name) })
}

func (u *user) has(role string) bool {
	_, ok := slices.BinarySearch(u.roles, role)
	return ok
}

func (u *user) isRoot() bool { return u.has(Root) }

// Users returns the names of all users, in order.
func (s *State) Users() []string {
	names := make([]string, len(s.users))
	for i, u := range s.users {
		names[i] = u.name
	}
	return names
}

// Roles returns the names of all roles, in order.
func (s *State) Roles() []string {
	names := make([]string, len(s.roles))
	for i, r := range s.roles {
		names[i] = r.name
	}
	return names
}

// RolesOf returns the roles of a user, in order. The error is ErrUserNotFound.
func (s *State) RolesOf(name string) ([]string, error) {
	u := s.user(name)
	if u == nil {
		return nil, ErrUserNotFound
	}
	return slices.Clone(u.roles), nil
}

// rootPermission is what the role root has, whatever was granted to it.
var rootPermission = authpb.Permission{PermType: authpb.READWRITE, Key: []byte{}, RangeEnd: []byte{0}}

// PermissionsOf returns the permissions of a role, by key. They must not be changed. The
// error is ErrRoleNotFound.
func (s *State) PermissionsOf(name string) ([]*authpb.Permission, error) {
	r := s.role(name)
	if r == nil {
		return nil, ErrRoleNotFound
	}
	if name == Root {
		return []*authpb.Permission{&rootPermission}, nil
	}
	return slices.Clone(r.permissions), nil
}

// Hash returns what a password of a user is compared with, and the revision to give as that
// of the caller that logs in. Errors are ErrNotEnabled, ErrFailed and ErrNoPassword.
func (s *State) Hash(name string) (hash []byte, revision uint64, err error) {
	if !s.Enabled() {
		return nil, 0, ErrNotEnabled
	}
	if s == nil || s.user(name) == nil {
		return nil, 0, ErrFailed
	}
	u := s.user(name)
	if u.noPassword {
		return nil, 0, ErrNoPassword
	}
	return u.hash, s.revision, nil
}

// size is what a user counts towards MaxTotalBytes.
func (u *user) size() int {
	n := itemOverhead + len(u.name) + len(u.hash)
	for _, r := range u.roles {
		n += itemOverhead + len(r)
	}
	return n
}

// size is what a role counts towards MaxTotalBytes.
func (r *role) size() int {
	n := itemOverhead + len(r.name)
	for _, p := range r.permissions {
		n += itemOverhead + len(p.Key) + len(p.RangeEnd)
	}
	return n
}
