package auth

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// An export makes the same state again, in which older proofs do not count.
func TestExport(t *testing.T) {
	s := New()
	for _, m := range []proto.Message{
		&pb.AuthUserAddRequest{Name: "root", Options: &authpb.UserAddOptions{NoPassword: true}}, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"},
		&pb.AuthUserAddRequest{Name: "ann", HashedPassword: "aGFzaA=="}, &pb.AuthRoleAddRequest{Name: "s"}, &pb.AuthRoleAddRequest{Name: "r"},
		&pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{PermType: authpb.READ, Key: []byte("b")}},
		&pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{PermType: authpb.WRITE, Key: []byte("a"), RangeEnd: []byte("b")}},
		&pb.AuthUserGrantRoleRequest{User: "ann", Role: "s"}, &pb.AuthUserGrantRoleRequest{User: "ann", Role: "r"}, &pb.AuthEnableRequest{},
	} {
		var err error
		if s, _, err = s.Apply(Caller{}, m); err != nil {
			t.Fatal(err)
		}
	}
	users, roles := s.Export()
	slices.Reverse(users)
	slices.Reverse(roles)
	slices.Reverse(roles[0].KeyPermission)
	back, err := Import(true, s.Revision(), users, roles)
	if err != nil {
		t.Fatal(err)
	}
	_, old := back.Recognize("ann", s.Revision()-1)
	_, now := back.Recognize("ann", s.Revision())
	if !errors.Is(old, ErrInvalidToken) || now != nil {
		t.Errorf("a proof of before: %v, one of now: %v; want only the second to count", old, now)
	}
	for _, u := range []*user{s.user("ann"), s.user("root")} {
		u.since = s.revision
	}
	s.since = s.revision
	if !bytes.Equal(back.Encode(), s.Encode()) {
		t.Error("the state is another one")
	}
	if _, err := Import(true, 3, users[1:], roles); err == nil { // ann
		t.Error("users are in force, and nobody is root")
	}
	if _, err := Import(false, 0, nil, nil); err == nil {
		t.Error("there is no revision 0")
	}
	twice := []*authpb.Permission{
		{PermType: authpb.WRITE, Key: []byte("k")}, {PermType: authpb.READ, Key: []byte("l")}, {PermType: authpb.READ, Key: []byte("k")}, {PermType: authpb.READ, Key: []byte("l")},
	}
	back, err = Import(false, 3, nil, []*authpb.Role{{Name: []byte("r"), KeyPermission: twice}})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := back.PermissionsOf("r"); err != nil || len(list) != 2 || list[0].PermType != authpb.READWRITE || list[1].PermType != authpb.READ {
		t.Errorf("permissions that etcd has twice: %v, %v, want one of each range, with the rights of both", list, err)
	}
	many := make([]*authpb.Role, MaxRoles+1)
	for i := range many {
		many[i] = &authpb.Role{Name: []byte{'r', byte(i >> 8), byte(i)}}
	}
	if _, err := Import(false, 1, nil, many); !errors.Is(err, ErrLimit) {
		t.Errorf("too many roles: %v", err)
	}
}

// Users and roles beyond the limits are not taken in.
func TestImportHasLimits(t *testing.T) {
	users := func(n int) (list []*authpb.User) {
		for i := range n {
			list = append(list, &authpb.User{Name: fmt.Appendf(nil, "%05d", i)})
		}
		return list
	}
	roles := func(n int) (list []*authpb.Role) {
		for i := range n {
			list = append(list, &authpb.Role{Name: fmt.Appendf(nil, "%05d", i)})
		}
		return list
	}
	large := func(n int) []*authpb.User {
		return []*authpb.User{{Name: []byte("u"), Password: make([]byte, n-itemOverhead-1)}}
	}
	for name, tt := range map[string]struct {
		users []*authpb.User
		roles []*authpb.Role
		want  error
	}{
		"as many as may be":  {users(MaxUsers), roles(MaxRoles), nil},
		"a user too many":    {users(MaxUsers + 1), nil, ErrLimit},
		"a role too many":    {nil, roles(MaxRoles + 1), ErrLimit},
		"as large as may be": {large(MaxTotalBytes), nil, nil},
		"a byte too many":    {large(MaxTotalBytes + 1), nil, ErrLimit},
	} {
		if _, err := Import(false, 3, tt.users, tt.roles); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}
