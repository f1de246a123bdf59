package node

import (
	"context"
	"encoding/base64"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// enableUsers puts root and ann in force; ann may read and write "a".
func enableUsers(t *testing.T, n *Node) {
	t.Helper()
	hash := base64.StdEncoding.EncodeToString([]byte("hash"))
	for _, m := range []proto.Message{
		&pb.AuthUserAddRequest{Name: "root", HashedPassword: hash}, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"},
		&pb.AuthUserAddRequest{Name: "ann", HashedPassword: hash}, &pb.AuthRoleAddRequest{Name: "r"},
		&pb.AuthRoleGrantPermissionRequest{Name: "r", Perm: &authpb.Permission{PermType: authpb.READWRITE, Key: []byte("a")}},
		&pb.AuthUserGrantRoleRequest{User: "ann", Role: "r"}, &pb.AuthEnableRequest{},
	} {
		if _, err := n.Propose(t.Context(), m); err != nil {
			t.Fatalf("%T: %v", m, err)
		}
	}
}

// as is a context of a user that was recognised just now.
func as(t *testing.T, n *Node, name string) context.Context {
	return caller.With(t.Context(), auth.Caller{User: name, Revision: n.Users().Revision()})
}

// All members judge requests alike: by who calls, at any member, whether the request writes, reads
// under a lease or a round, or reads what is published. All learn of a token.
func TestCallersAreJudged(t *testing.T) {
	var mu sync.Mutex
	tokens := map[string][]replica.Token{}
	c := newCluster(t, 3, nimble, func(cfg *Config) {
		cfg.Assigned = func(token replica.Token) {
			mu.Lock()
			defer mu.Unlock()
			tokens[cfg.Name] = append(tokens[cfg.Name], token)
		}
	})
	for _, n := range c.nodes {
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	n := c.nodes[0]
	put := &pb.PutRequest{Key: []byte("a"), Value: []byte("v")}
	ctx := caller.With(t.Context(), auth.Caller{User: "stranger", Revision: 9})
	if n.calling(ctx) != (auth.Caller{}) {
		t.Error("the log has callers before users are in force")
	}
	if _, err := n.Propose(ctx, put); err != nil {
		t.Fatal(err)
	}
	enableUsers(t, n)
	for i, n := range c.nodes {
		if err := n.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		get := func(key string) *pb.RangeRequest { return &pb.RangeRequest{Key: []byte(key)} }
		for _, tt := range []struct {
			name string
			ctx  context.Context
			m    proto.Message
			want error
		}{
			{"nobody", t.Context(), put, auth.ErrUserEmpty},
			{"ann", as(t, n, "ann"), put, nil},
			{"ann, of another key", as(t, n, "ann"), &pb.PutRequest{Key: []byte("b")}, auth.ErrDenied},
			{"a stranger", as(t, n, "stranger"), put, auth.ErrDenied},
			{"the member", caller.Member(t.Context()), put, nil},
			{"nobody", t.Context(), get("a"), auth.ErrUserEmpty},
			{"ann", as(t, n, "ann"), get("a"), nil},
			{"ann, of another key", as(t, n, "ann"), get("b"), auth.ErrDenied},
			{"root", as(t, n, "root"), get("b"), nil},
		} {
			if _, writes := tt.m.(*pb.PutRequest); writes {
				if _, err := n.Propose(tt.ctx, tt.m); !errors.Is(err, tt.want) {
					t.Errorf("member %d, %s puts: got %v, want %v", i, tt.name, err, tt.want)
				}
				continue
			}
			if _, err := n.ReadView(tt.ctx, tt.m); !errors.Is(err, tt.want) {
				t.Errorf("member %d, %s reads: got %v, want %v", i, tt.name, err, tt.want)
			}
			if _, err := n.ViewFor(tt.ctx, tt.m); !errors.Is(err, tt.want) {
				t.Errorf("member %d, %s reads what is published: got %v, want %v", i, tt.name, err, tt.want)
			}
		}
	}
	login := &pb.InternalAuthenticateRequest{Name: "ann", SimpleToken: "digest"}
	if _, err := n.Propose(as(t, n, "ann"), login); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		if err := n.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if got := tokens[n.cfg.Name]; len(got) != 1 || got[0].Digest != "digest" || got[0].User != "ann" {
			t.Errorf("member %s: got the tokens %+v, want that of ann", n.cfg.Name, got)
		}
		mu.Unlock()
	}
}

// Where nothing may be seen yet, nothing is read, whoever calls.
func TestNothingIsReadBeforeItMayBeSeen(t *testing.T) {
	st := &state{}
	if _, err := st.permitted(caller.Member(t.Context()), &pb.RangeRequest{Key: []byte("a")}); !errors.Is(err, kv.ErrNoState) {
		t.Errorf("got %v, want %v", err, kv.ErrNoState)
	}
}

// In key order as well, a reader is judged by the users of the state that it reads.
func TestCallersAreJudgedInKeyOrder(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.ReadLease = "all/key" })
	for _, n := range c.nodes {
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	enableUsers(t, c.nodes[0])
	for i, n := range c.nodes {
		if err := n.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; {
			_, err := n.ReadView(as(t, n, "ann"), &pb.RangeRequest{Key: []byte("b")})
			if errors.Is(err, auth.ErrDenied) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("member %d: ann reads a key that she may not: got %v, want %v", i, err, auth.ErrDenied)
			}
		}
		two := &pb.TxnRequest{Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("a"), RangeEnd: []byte("c")}}}}}
		if _, err := n.ReadView(as(t, n, "ann"), two); !errors.Is(err, auth.ErrDenied) {
			t.Errorf("member %d: ann reads keys together: got %v, want %v", i, err, auth.ErrDenied)
		}
		if _, err := n.ReadView(as(t, n, "root"), two); err != nil {
			t.Errorf("member %d: root reads keys together: %v", i, err)
		}
	}
}
