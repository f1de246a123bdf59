package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/authpb"
)

// A step is a request with the error that it leads to and what it adds to the revision.
type step struct {
	m     proto.Message
	err   error
	count uint64
}

func play(t *testing.T, s *stage, steps []step) {
	t.Helper()
	for i, st := range steps {
		before := s.Revision()
		if err := s.try(st.m); !errors.Is(err, st.err) {
			t.Errorf("step %d, %T{%v}: got the error %v, want %v", i, st.m, st.m, err, st.err)
		}
		if got := s.Revision() - before; got != st.count {
			t.Errorf("step %d, %T{%v}: the revision rises by %d, want %d", i, st.m, st.m, got, st.count)
		}
	}
}

// Each change counts one revision, what changes nothing none (AU-9), and errors are etcd's.
func TestChanges(t *testing.T) {
	s := newStage(t)
	if s.Revision() != 1 || s.Enabled() || s.Used() {
		t.Errorf("at first: got revision %d, enabled %v, used %v, want 1, false, false", s.Revision(), s.Enabled(), s.Used())
	}
	play(t, s, []step{
		{enable(), ErrRootUserMissing, 0},
		{disable(), nil, 0},
		{addUser(""), ErrUserEmpty, 0},
		{addUser("root"), nil, 1},
		{addUser("root"), ErrUserExists, 0},
		{enable(), ErrRootRoleMissing, 0},
		{grantRole("nobody", "root"), ErrUserNotFound, 0},
		{grantRole("root", "none"), ErrRoleNotFound, 0},
		{grantRole("root", "root"), nil, 1},
		{grantRole("root", "root"), nil, 0},
		{addRole(""), ErrRoleEmpty, 0},
		{addRole("r"), nil, 1},
		{addRole("r"), ErrRoleExists, 0},
		{grantRole("root", "r"), nil, 1},
		{revokeRole("root", "x"), ErrRoleNotGranted, 0},
		{revokeRole("nobody", "r"), ErrUserNotFound, 0},
		{revokeRole("root", "r"), nil, 1},
		{&pb.AuthRoleGrantPermissionRequest{Name: "r"}, ErrPermissionNotGiven, 0},
		{grant("none", reads, "a", ""), ErrRoleNotFound, 0},
		{grant("r", reads, "", "b"), ErrInvalidManagement, 0},
		{grant("r", reads, "b", "a"), ErrInvalidManagement, 0},
		{grant("r", reads, "b", "b"), ErrInvalidManagement, 0},
		{grant("r", 3, "b", ""), ErrInvalidManagement, 0},
		{grant("r", -1, "b", ""), ErrInvalidManagement, 0},
		{grant("r", reads, "b", "\x00"), nil, 1},
		{grant("r", both, "b", "\x00"), nil, 1},
		{grant("r", reads, "b", "c"), nil, 1},
		{revoke("none", "b", "c"), ErrRoleNotFound, 0},
		{revoke("r", "b", ""), ErrPermissionNotGranted, 0},
		{revoke("r", "b", "\x00"), nil, 1},
		{password("nobody", "x"), ErrUserNotFound, 0},
		{password("root", "x"), nil, 1},
		{deleteUser("nobody"), ErrUserNotFound, 0},
		{deleteRole("none"), ErrRoleNotFound, 0},
		{deleteRole("r"), nil, 1},
		{enable(), nil, 0},
		{enable(), nil, 0},
		{disable(), nil, 1},
		{&pb.PutRequest{}, errUnknownRequest, 0},
	})
}

// Permissions that are granted and revoked are found again, in order.
func TestLists(t *testing.T) {
	s := newStage(t)
	s.do(addUser("c"), addUser("a"), addUser("b"), addRole("z"), addRole("x"), addRole("y"),
		grantRole("a", "z"), grantRole("a", "x"), grantRole("a", "y"), revokeRole("a", "y"), deleteUser("b"),
		grant("x", reads, "k", "n"), grant("x", writes, "k", ""), grant("x", reads, "d", ""), grant("x", both, "k", ""), revoke("x", "d", ""))
	if got := s.Users(); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("users: got %q, want a and c", got)
	}
	if got := s.Roles(); !slices.Equal(got, []string{"x", "y", "z"}) {
		t.Errorf("roles: got %q, want x, y and z", got)
	}
	if got, err := s.RolesOf("a"); err != nil || !slices.Equal(got, []string{"x", "z"}) {
		t.Errorf("roles of a: got %q, %v, want x and z", got, err)
	}
	if _, err := s.RolesOf("b"); !errors.Is(err, ErrUserNotFound) {
		t.Errorf("roles of a user that was deleted: got %v, want %v", err, ErrUserNotFound)
	}
	got, err := s.PermissionsOf("x")
	if text := fmt.Sprint(err, len(got)); text != "<nil> 2" {
		t.Fatalf("permissions: got %v, want two", text)
	}
	if got[0].PermType != both || string(got[0].RangeEnd) != "" || string(got[1].RangeEnd) != "n" {
		t.Errorf("permissions: got %v, want k for both, and k to n", got)
	}
	if _, err := s.PermissionsOf("w"); !errors.Is(err, ErrRoleNotFound) {
		t.Errorf("permissions of no role: got %v, want %v", err, ErrRoleNotFound)
	}
	s.do(addRole("root"), grant("root", reads, "k", ""))
	if got, _ := s.PermissionsOf("root"); len(got) != 1 || got[0].PermType != both || string(got[0].RangeEnd) != "\x00" {
		t.Errorf("permissions of root: got %v, want all keys for both", got)
	}
	s.do(deleteRole("z"))
	if got, _ := s.RolesOf("a"); !slices.Equal(got, []string{"x"}) {
		t.Errorf("roles of a after one was deleted: got %q, want x", got)
	}
}

// A state is never changed: readers go on with what they have.
func TestStatesStay(t *testing.T) {
	s := inForce(t, grant("r", both, "a", "c"))
	s.do(addRole("q"))
	old, bytes := s.State, string(s.Encode())
	for _, m := range []proto.Message{
		addUser("bob"), addRole("p"), grant("r", reads, "a", "c"), grant("r", reads, "x", ""), revoke("r", "a", "c"),
		grantRole("ann", "q"), revokeRole("ann", "r"), password("ann", "x"), deleteRole("r"), deleteUser("ann"), disable(),
	} {
		s.State = old
		s.do(m)
		if string(old.Encode()) != bytes {
			t.Fatalf("%T changes the state that was there before", m)
		}
	}
}

// While users are in force, root stays root (AU-8).
func TestRootMayLoseOtherRoles(t *testing.T) {
	s := inForce(t, grantRole("root", "r"))
	if s.do(revokeRole("root", "r")); s.user(Root).has("r") || !s.user(Root).isRoot() {
		t.Errorf("root has the roles %v", s.user(Root).roles)
	}
}

func TestRootStays(t *testing.T) {
	s := newStage(t)
	s.do(addUser("root"), grantRole("root", "root"), addRole("root"), enable(), addUser("ann"), grantRole("ann", "root"))
	play(t, s, []step{
		{deleteUser("root"), ErrInvalidManagement, 0},
		{revokeRole("root", "root"), ErrInvalidManagement, 0},
		{deleteRole("root"), ErrInvalidManagement, 0},
		{revokeRole("ann", "root"), nil, 1},
		{disable(), nil, 1},
		{revokeRole("root", "root"), nil, 1},
		{deleteRole("root"), nil, 1},
		{deleteUser("root"), nil, 1},
	})
}

func TestPasswords(t *testing.T) {
	s := newStage(t)
	s.do(addUser("root"), grantRole("root", "root"))
	if _, _, err := s.Hash("root"); !errors.Is(err, ErrNotEnabled) {
		t.Errorf("a password while users are not in force: got %v, want %v", err, ErrNotEnabled)
	}
	s.do(&pb.AuthUserAddRequest{Name: "cert", HashedPassword: hash("x"), Options: &authpb.UserAddOptions{NoPassword: true}}, enable())
	if got, rev, err := s.Hash("root"); err != nil || string(got) != "#root" || rev != s.Revision() {
		t.Errorf("hash: got %q at %d, %v, want #root at %d", got, rev, err, s.Revision())
	}
	s.do(password("root", "new"), password("cert", "new"))
	if got, _, _ := s.Hash("root"); string(got) != "#new" {
		t.Errorf("hash after a change: got %q, want #new", got)
	}
	if _, _, err := s.Hash("cert"); !errors.Is(err, ErrNoPassword) {
		t.Errorf("hash of a user without a password: got %v, want %v", err, ErrNoPassword)
	}
	if _, _, err := s.Hash("nobody"); !errors.Is(err, ErrFailed) {
		t.Errorf("hash of nobody: got %v, want %v", err, ErrFailed)
	}
	if _, _, err := (*State)(nil).Hash("root"); !errors.Is(err, ErrFailed) {
		t.Errorf("hash of no state: got %v, want %v", err, ErrFailed)
	}
	for _, bad := range []string{"no base64", hash(strings.Repeat("x", maxHashBytes))} {
		if err := s.try(&pb.AuthUserAddRequest{Name: "x", HashedPassword: bad}); !errors.Is(err, ErrNoPassword) {
			t.Errorf("a user with the hash %q: got %v, want %v", bad, err, ErrNoPassword)
		}
		if err := s.try(&pb.AuthUserChangePasswordRequest{Name: "root", HashedPassword: bad}); !errors.Is(err, ErrNoPassword) {
			t.Errorf("a change to the hash %q: got %v, want %v", bad, err, ErrNoPassword)
		}
	}
}

// A password that was right at a revision counts if nothing has happened to its user since.
func TestLogIn(t *testing.T) {
	s := newStage(t)
	s.do(addUser("root"), grantRole("root", "root"), addUser("ann"))
	logIn := func(name string, checked uint64) error {
		_, _, err := s.Apply(Caller{Revision: checked}, &pb.InternalAuthenticateRequest{Name: name})
		return err
	}
	check := func(name string, checked uint64, want error) {
		t.Helper()
		if got := logIn(name, checked); !errors.Is(got, want) {
			t.Errorf("%s logs in, judged at %d of %d: got %v, want %v", name, checked, s.Revision(), got, want)
		}
	}
	check("ann", s.Revision(), ErrNotEnabled)
	s.do(enable())
	was := s.Revision()
	check("ann", was, nil)
	check("nobody", was, ErrFailed)
	s.do(addRole("r"), grantRole("ann", "r"), password("root", "x"))
	check("ann", was, nil)
	check("root", was, ErrOldRevision)
	s.do(deleteUser("ann"), addUser("ann"))
	check("ann", was, ErrOldRevision)
	was = s.Revision()
	s.do(disable(), enable())
	check("ann", was, ErrOldRevision)
	check("ann", s.Revision(), nil)
	s.do(&pb.AuthUserAddRequest{Name: "cert", Options: &authpb.UserAddOptions{NoPassword: true}})
	check("cert", s.Revision(), ErrFailed)
}

func TestLimits(t *testing.T) {
	long := strings.Repeat("n", MaxNameBytes+1)
	s := newStage(t)
	play(t, s, []step{
		{addUser(long), ErrLimit, 0}, {addRole(long), ErrLimit, 0}, {&pb.AuthUserAddRequest{Name: long[1:]}, nil, 1}, {addRole(long[1:]), nil, 1},
	})
	full := newStage(t)
	for i := range MaxUsers {
		name := fmt.Sprintf("%05d", i)
		full.users = append(full.users, &user{name: name})
		full.roles = append(full.roles, newRole(name, nil))
	}
	play(t, full, []step{{addUser("x"), ErrLimit, 0}, {addRole("x"), ErrLimit, 0}})
	for i := range MaxRolesOfUser {
		full.users[0].roles = append(full.users[0].roles, fmt.Sprintf("%05d", i))
	}
	play(t, full, []step{{grantRole("00000", "09999"), ErrLimit, 0}, {grantRole("00000", "00001"), nil, 0}})
	many := newStage(t)
	many.do(addRole("r"))
	for i := range MaxPermissions {
		many.do(grant("r", reads, fmt.Sprint(i), ""))
	}
	play(t, many, []step{{grant("r", reads, "x", ""), ErrLimit, 0}, {grant("r", both, "7", ""), nil, 1}})
	large := newStage(t)
	large.do(addRole("r"), addRole("q"))
	key := strings.Repeat("k", MaxTotalBytes/2)
	large.do(grant("r", reads, key, ""))
	play(t, large, []step{{grant("q", reads, key, ""), ErrLimit, 0}, {deleteRole("r"), nil, 1}, {grant("q", reads, key, ""), nil, 1}})
}

// A role of a user counts by its name, and a hash has the length of bcrypt's at most.
func TestWhatCounts(t *testing.T) {
	s := newStage(t)
	s.do(addUser("u"), addRole("four"))
	was := s.size
	if s.do(grantRole("u", "four")); s.size != was+itemOverhead+4 {
		t.Errorf("a role of a user counts %d bytes, want %d", s.size-was, itemOverhead+4)
	}
	for n, want := range map[int]error{maxHashBytes: nil, maxHashBytes + 1: ErrNoPassword} {
		m := &pb.AuthUserAddRequest{Name: fmt.Sprint(n), HashedPassword: base64.StdEncoding.EncodeToString(make([]byte, n))}
		if err := s.try(m); !errors.Is(err, want) {
			t.Errorf("a hash of %d bytes: %v, want %v", n, err, want)
		}
	}
}

// The size is that of what is there, however it came to be.
func TestSize(t *testing.T) {
	s := inForce(t, grant("r", both, "a", "c"), addRole("q"), grantRole("ann", "q"), grant("q", reads, "x", ""),
		password("ann", "longer than before"), grant("q", both, "x", ""), revokeRole("ann", "r"), deleteRole("q"), addUser("bob"), deleteUser("bob"))
	read, err := Decode(s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if s.size != read.size || s.size == 0 {
		t.Errorf("the size after changes is %d, and %d when read", s.size, read.size)
	}
}
