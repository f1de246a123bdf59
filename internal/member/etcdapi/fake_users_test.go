package etcdapi

import (
	"context"
	"encoding/base64"
	"strconv"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Users are the fake's.
func (f *fake) Users() *auth.State {
	if u := f.users.Load(); u != nil {
		return u
	}
	return noUsers
}

var noUsers = auth.New()

// judge does so as a node does.
func (f *fake) judge(ctx context.Context, r proto.Message) error {
	return f.Users().Permit(caller.Of(ctx), r, f.View().LeaseKeys)
}

// ViewFor is the view, for those who may see it.
func (f *fake) ViewFor(ctx context.Context, r proto.Message) (kv.View, error) {
	if v := f.View(); v.Revision() == 0 {
		return v, kv.ErrNoState
	}
	if err := f.judge(ctx, r); err != nil {
		return kv.View{}, err
	}
	return f.View(), nil
}

// changeUsers applies a change of users.
func (f *fake) changeUsers(ctx context.Context, r proto.Message) (proto.Message, error) {
	users, resp, err := f.Users().Apply(caller.Of(ctx), r)
	if err != nil {
		return nil, err
	}
	f.users.Store(users)
	f.hub.Rejudge() // as a node does
	header := &pb.ResponseHeader{Revision: f.store.Revision()}
	if m, ok := r.(*pb.InternalAuthenticateRequest); ok {
		f.logins++
		if f.assigned != nil {
			f.assigned(replica.Token{Digest: m.SimpleToken, Index: f.logins, User: m.Name, Revision: users.Revision()})
		}
		return &pb.AuthenticateResponse{Header: header, Token: strconv.FormatUint(f.logins, 10)}, nil
	}
	fields := resp.ProtoReflect().Descriptor().Fields()
	resp.ProtoReflect().Set(fields.ByName("header"), protoreflect.ValueOfMessage(header.ProtoReflect()))
	return resp, nil
}

// be does something to the users, as a member does.
func (f *fake) be(t testing.TB, list ...proto.Message) {
	t.Helper()
	for _, m := range list {
		if _, err := f.Propose(caller.Member(t.Context()), m); err != nil {
			t.Fatalf("%T: %v", m, err)
		}
	}
}

// hashOf is a cheap one.
func hashOf(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(hash)
}

// permission is one of a role.
func permission(role string, kind authpb.Permission_Type, key, end string) proto.Message {
	return &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: &authpb.Permission{PermType: kind, Key: []byte(key), RangeEnd: []byte(end)}}
}

// enableUsers puts root and ann in force, with their names as passwords. Ann may read and write
// the keys from "a/" up to "a0", and read "r".
func (f *fake) enableUsers(t testing.TB) {
	t.Helper()
	f.be(t,
		&pb.AuthUserAddRequest{Name: "root", HashedPassword: hashOf(t, "root")}, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"},
		&pb.AuthUserAddRequest{Name: "ann", HashedPassword: hashOf(t, "ann")}, &pb.AuthRoleAddRequest{Name: "anns"},
		permission("anns", authpb.READWRITE, "a/", "a0"), permission("anns", authpb.READ, "r", ""),
		&pb.AuthUserGrantRoleRequest{User: "ann", Role: "anns"}, &pb.AuthEnableRequest{},
	)
}
