package backup_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// someUsers are root and ann, in force if that is asked for.
func someUsers(t *testing.T, enabled bool) *auth.State {
	t.Helper()
	list := []proto.Message{
		&pb.AuthUserAddRequest{Name: "root", Options: &authpb.UserAddOptions{NoPassword: true}}, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"},
		&pb.AuthUserAddRequest{Name: "ann", HashedPassword: "aGFzaA=="}, &pb.AuthRoleAddRequest{Name: "r"},
		&pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{PermType: authpb.READWRITE, Key: []byte("a"), RangeEnd: []byte("b")}},
		&pb.AuthUserGrantRoleRequest{User: "ann", Role: "r"},
	}
	if enabled {
		list = append(list, &pb.AuthEnableRequest{})
	}
	s := auth.New()
	for _, m := range list {
		next, _, err := s.Apply(auth.Caller{}, m)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return s
}

// Users come back as they were, in force or not.
func TestUsersInABackup(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		path, users := filepath.Join(t.TempDir(), "backup.db"), someUsers(t, enabled)
		if err := backup.Write(path, backup.State{View: kv.New().View(), Users: users}); err != nil {
			t.Fatal(err)
		}
		c, err := backup.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		u, r := users.Export()
		want, err := auth.Import(enabled, users.Revision(), u, r)
		if err != nil || c.Users() == nil || !bytes.Equal(c.Users().Encode(), want.Encode()) || c.Users().Enabled() != enabled {
			t.Errorf("in force %v: %v, and users %v, want them as they were", enabled, err, c.Users())
		}
	}
	if c, err := backup.Read(write(t, rich(t))); err != nil || c.Users() != nil {
		t.Errorf("where there are no users: %v, %v", c.Users(), err)
	}
}

// Damaged users are an error: without them the cluster would be open.
func TestDamagedUsers(t *testing.T) {
	for name, tt := range map[string]struct {
		bucket, key string
		value       []byte
	}{
		"no revision":            {"auth", "authRevision", []byte{1}},
		"a revision 0":           {"auth", "authRevision", make([]byte, 8)},
		"a user that is none":    {"authUsers", "ann", []byte{0xff}},
		"a user of another name": {"authUsers", "bob", []byte{10, 1, 'x'}},
		"a role that is none":    {"authRoles", "r", []byte{0xff}},
		"nobody is root":         {"authUsers", "root", []byte{10, 4, 'r', 'o', 'o', 't'}},
	} {
		path := filepath.Join(t.TempDir(), "backup.db")
		if err := backup.Write(path, backup.State{View: kv.New().View(), Users: someUsers(t, true)}); err != nil {
			t.Fatal(err)
		}
		edit(t, path, func(tx *bbolt.Tx) error {
			if b := tx.Bucket([]byte(tt.bucket)); b != nil {
				return b.Put([]byte(tt.key), tt.value)
			}
			return fmt.Errorf("there is no bucket %s, as etcd has it", tt.bucket)
		})
		if _, err := backup.Read(path); err == nil || !strings.Contains(err.Error(), "users and roles make no sense") {
			t.Errorf("%s: %v, want that the users make no sense", name, err)
		}
	}
}
