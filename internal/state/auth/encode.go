package auth

import (
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"

	"github.com/tenure-lease/tenure/internal/wire"
)

// encodingVersion is the first byte. It is on disk.
const encodingVersion = 1

// Encode returns the state as bytes: the same for the same state. Behind the version stand
// whether users are in force, the revision, the revision at which they were last switched
// off, the roles with their permissions, and the users.
func (s *State) Encode() []byte {
	var w wire.Writer
	w.Byte(encodingVersion)
	w.Byte(flag(s.enabled))
	w.Uvarint(s.revision)
	w.Uvarint(s.since)
	w.Count(len(s.roles))
	for _, r := range s.roles {
		w.Text(r.name)
		w.Count(len(r.permissions))
		for _, p := range r.permissions {
			w.Uvarint(uint64(p.PermType))
			w.Bytes(p.Key)
			w.Bytes(p.RangeEnd)
		}
	}
	w.Count(len(s.users))
	for _, u := range s.users {
		w.Text(u.name)
		w.Byte(flag(u.noPassword))
		w.Bytes(u.hash)
		w.Uvarint(u.since)
		w.Count(len(u.roles))
		for _, r := range u.roles {
			w.Text(r)
		}
	}
	return w
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// Decode is the inverse of Encode. It fails on bytes that Encode did not write, and on a state
// that Apply could not have led to.
func Decode(p []byte) (*State, error) {
	r := wire.Reader{Rest: p}
	if v := r.Byte(); v != encodingVersion {
		return nil, fmt.Errorf("%w: version %d", errCorrupt, v)
	}
	s := &State{enabled: readFlag(&r), revision: r.Uvarint(), since: r.Uvarint()}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		s.addDecoded(&r, readRole(&r))
	}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		s.addDecodedUser(&r, readUser(&r))
	}
	if !r.Done() || s.revision == 0 || s.since > s.revision || s.size > MaxTotalBytes {
		return nil, errCorrupt
	}
	if root := s.user(Root); s.enabled && (root == nil || !root.isRoot()) {
		return nil, fmt.Errorf("%w: users are in force, and nobody is root", errCorrupt)
	}
	return s, nil
}

// readFlag reads a byte that is 0 or 1.
func readFlag(r *wire.Reader) bool {
	b := r.Byte()
	if b > 1 {
		r.Fail()
	}
	return b == 1
}

func readRole(r *wire.Reader) *role {
	name := r.Text()
	var list []*authpb.Permission
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		p := &authpb.Permission{
			PermType: authpb.Permission_Type(r.UvarintTo(uint64(authpb.READWRITE))),
			Key:      slices.Clone(r.Bytes()), RangeEnd: slices.Clone(r.Bytes()),
		}
		at, known := findPermission(list, p.Key, p.RangeEnd)
		if !validRange(p.Key, p.RangeEnd) || known || at < len(list) {
			r.Fail()
		}
		list = append(list, p)
	}
	return newRole(name, list)
}

func readUser(r *wire.Reader) *user {
	u := &user{name: r.Text(), noPassword: readFlag(r), hash: slices.Clone(r.Bytes()), since: r.Uvarint()}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		u.roles = append(u.roles, r.Text())
	}
	return u
}

// addDecoded adds a role, which must be the last in order.
func (s *State) addDecoded(r *wire.Reader, next *role) {
	if n := len(s.roles); next.name == "" || n > 0 && s.roles[n-1].name >= next.name {
		r.Fail()
	}
	s.roles = append(s.roles, next)
	s.size += next.size()
}

// addDecodedUser adds a user, which must be the last in order, and have roles that there are.
func (s *State) addDecodedUser(r *wire.Reader, next *user) {
	if n := len(s.users); next.name == "" || n > 0 && s.users[n-1].name >= next.name || next.since > s.revision {
		r.Fail()
	}
	for i, name := range next.roles {
		if i > 0 && next.roles[i-1] >= name || name != Root && s.role(name) == nil {
			r.Fail()
		}
	}
	s.users = append(s.users, next)
	s.size += next.size()
}
