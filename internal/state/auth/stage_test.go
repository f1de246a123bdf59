package auth

import (
	"encoding/base64"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// stage is a state that a test changes step by step.
type stage struct {
	*State
	t *testing.T
}

func newStage(t *testing.T) *stage { return &stage{New(), t} }

// hash is what a password becomes here.
func hash(password string) string { return base64.StdEncoding.EncodeToString([]byte("#" + password)) }

// try applies a request and returns its error.
func (s *stage) try(m proto.Message) error {
	next, resp, err := s.Apply(Caller{}, m)
	if err == nil && resp == nil {
		s.t.Fatalf("%T: got no response", m)
	}
	if err != nil && next != s.State {
		s.t.Errorf("%T: the state changes with the error %v", m, err)
	}
	s.State = next
	return err
}

// do applies requests that must succeed.
func (s *stage) do(list ...proto.Message) {
	s.t.Helper()
	for _, m := range list {
		if err := s.try(m); err != nil {
			s.t.Fatalf("%T %v: %v", m, m, err)
		}
	}
}

func addUser(name string) proto.Message {
	return &pb.AuthUserAddRequest{Name: name, HashedPassword: hash(name)}
}
func addRole(name string) proto.Message { return &pb.AuthRoleAddRequest{Name: name} }
func grantRole(user, role string) proto.Message {
	return &pb.AuthUserGrantRoleRequest{User: user, Role: role}
}
func revokeRole(user, role string) proto.Message {
	return &pb.AuthUserRevokeRoleRequest{Name: user, Role: role}
}
func deleteUser(name string) proto.Message { return &pb.AuthUserDeleteRequest{Name: name} }
func deleteRole(name string) proto.Message { return &pb.AuthRoleDeleteRequest{Role: name} }
func password(name, word string) proto.Message {
	return &pb.AuthUserChangePasswordRequest{Name: name, HashedPassword: hash(word)}
}
func grant(role string, kind authpb.Permission_Type, key, end string) proto.Message {
	p := &authpb.Permission{PermType: kind, Key: []byte(key), RangeEnd: []byte(end)}
	return &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: p}
}
func revoke(role, key, end string) proto.Message {
	return &pb.AuthRoleRevokePermissionRequest{Role: role, Key: []byte(key), RangeEnd: []byte(end)}
}
func enable() proto.Message  { return &pb.AuthEnableRequest{} }
func disable() proto.Message { return &pb.AuthDisableRequest{} }

const (
	reads  = authpb.READ
	writes = authpb.WRITE
	both   = authpb.READWRITE
)

// inForce is a stage with root, and with ann, whose role "r" has permissions.
func inForce(t *testing.T, permissions ...proto.Message) *stage {
	s := newStage(t)
	s.do(addUser("root"), grantRole("root", "root"), addUser("ann"), addRole("r"), grantRole("ann", "r"))
	s.do(permissions...)
	s.do(enable())
	return s
}

// as is a user that was recognised just now.
func (s *stage) as(name string) Caller { return Caller{User: name, Revision: s.Revision()} }

// wants checks what a request leads to.
func (s *stage) wants(c Caller, m proto.Message, want error) {
	s.t.Helper()
	if got := s.Permit(c, m, leases); !errors.Is(got, want) {
		s.t.Errorf("%+v asks for %T{%v}: got %v, want %v", c, m, m, got, want)
	}
}

// leases has the keys of lease 7, "a" and "b", and of lease 8, "a".
func leases(id int64) [][]byte {
	switch id {
	case 7:
		return [][]byte{[]byte("a"), []byte("b")}
	case 8:
		return [][]byte{[]byte("a")}
	}
	return nil
}
