package auth

import (
	"cmp"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
)

// Export returns the users and the roles, by name, in etcd's messages. They must not be changed.
func (s *State) Export() (users []*authpb.User, roles []*authpb.Role) {
	for _, u := range s.users {
		users = append(users, &authpb.User{
			Name: []byte(u.name), Password: u.hash, Roles: u.roles, Options: &authpb.UserAddOptions{NoPassword: u.noPassword},
		})
	}
	for _, r := range s.roles {
		roles = append(roles, &authpb.Role{Name: []byte(r.name), KeyPermission: r.permissions})
	}
	return users, roles
}

// Import makes a state of users and roles, in any order, at a revision. Permissions of the same range,
// of which etcd may have several, are joined. The proofs of a user from before
// that revision do not count. It fails as Decode does, and with ErrLimit.
func Import(enabled bool, revision uint64, users []*authpb.User, roles []*authpb.Role) (*State, error) {
	s := &State{enabled: enabled, revision: revision, since: revision}
	for _, r := range roles {
		s.roles = append(s.roles, newRole(string(r.Name), joined(r.KeyPermission)))
	}
	for _, u := range users {
		roles := slices.Sorted(slices.Values(u.Roles))
		s.users = append(s.users, &user{name: string(u.Name), hash: u.Password, noPassword: u.Options.GetNoPassword(), roles: roles, since: revision})
	}
	slices.SortFunc(s.roles, func(a, b *role) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(s.users, func(a, b *user) int { return cmp.Compare(a.name, b.name) })
	for _, r := range s.roles {
		s.size += r.size()
	}
	for _, u := range s.users {
		s.size += u.size()
	}
	if s.size > MaxTotalBytes || len(s.users) > MaxUsers || len(s.roles) > MaxRoles {
		return nil, ErrLimit
	}
	return Decode(s.Encode()) // which judges it
}

// joined sorts permissions, and makes one of those that have the same range.
func joined(all []*authpb.Permission) (list []*authpb.Permission) {
	sorted := slices.SortedStableFunc(slices.Values(all), func(a, b *authpb.Permission) int { return comparePermissions(a, b.Key, b.RangeEnd) })
	for _, p := range sorted {
		last := len(list) - 1
		switch {
		case last < 0 || comparePermissions(list[last], p.Key, p.RangeEnd) != 0:
			list = append(list, &authpb.Permission{PermType: p.PermType, Key: p.Key, RangeEnd: p.RangeEnd})
		case list[last].PermType != p.PermType: // one reads and one writes, or one does both
			list[last].PermType = authpb.READWRITE
		}
	}
	return list
}
