package etcd_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// serverOfUsers is a server on which root and app are in force. app may read and write the keys that begin
// with "app". The client is root's.
func serverOfUsers(t *testing.T) (addr string, root *clientv3.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = listener.Addr().String()
	s, err := server.Start(server.Config{
		Node: node.Config{
			Name: "a", DataDir: t.TempDir(), Peers: map[string]string{"a": "http://127.0.0.1:1"},
			ClientURLs: []string{"http://" + addr}, Logger: slog.New(slog.DiscardHandler),
		},
		Clients: []net.Listener{listener}, Logins: login.Config{Cost: bcrypt.MinCost},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if err := s.Node.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	open := plainClient(t, addr)
	ctx := t.Context()
	do := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(open.UserAdd(ctx, "root", "r"))
	do(open.UserGrantRole(ctx, "root", "root"))
	do(open.RoleAdd(ctx, "apps"))
	do(open.RoleGrantPermission(ctx, "apps", "app", clientv3.GetPrefixRangeEnd("app"), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(open.UserAdd(ctx, "app", "a"))
	do(open.UserGrantRole(ctx, "app", "apps"))
	do(open.AuthEnable(ctx))
	root, err = etcd.Dial(ctx, etcd.Config{Endpoints: []string{addr}, Username: "root", Password: "r"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return addr, root
}

// TestOpenAsAUser: a user need not be able to read anything to be answered. One without a right, with
// another's password, or half of one, is told so.
func TestOpenAsAUser(t *testing.T) {
	t.Parallel()
	addr, _ := serverOfUsers(t)
	for _, tt := range []struct{ user, password, says string }{
		{"app", "a", ""},
		{"root", "r", ""},
		{"", "", "has users: give one"},
		{"app", "r", `knows no user "app" with this password`},
		{"nobody", "r", `knows no user "nobody" with this password`},
		{"app", "", "there is a user and no password"},
		{"", "a", "there is a password and no user"},
	} {
		l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{addr}, Username: tt.user, Password: tt.password})
		if err == nil {
			l.Close()
		}
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("user %q with password %q: %v, want %q", tt.user, tt.password, err, tt.says)
		}
	}
}

// TestLoginsEndWithTheirContext: a login at a server that is silent lasts no longer than its caller waits.
func TestLoginsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	c, err := etcd.Dial(ctx, etcd.Config{Endpoints: []string{silent.Addr().String()}, Username: "u", Password: "p"})
	if err == nil {
		c.Close()
	}
	if d := time.Since(began); err == nil || d > 4*time.Second { // it would be five
		t.Errorf("a caller that has gone is answered after %v with %v", d, err)
	}
}

// countingClient is app's client, which counts its logins.
func countingClient(t *testing.T, addr string, logins *atomic.Int64) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Username: "app", Password: "a", Logger: zap.NewNop(), DialTimeout: 10 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if strings.HasSuffix(method, "/Authenticate") {
				logins.Add(1)
			}
			return call(ctx, method, req, reply, cc, opts...)
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestUsersKeepTheirLeases: renewals take no login each. A login that the server has forgotten is made
// anew, and the lease goes on.
func TestUsersKeepTheirLeases(t *testing.T) {
	t.Parallel()
	addr, root := serverOfUsers(t)
	var logins atomic.Int64
	l := etcd.New(countingClient(t, addr, &logins), nil)
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "app/job", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	renewed := func(times int) {
		t.Helper()
		for range times {
			before := lease.Deadline()
			waitFor(t, "a renewal", func() bool { return lease.Deadline().After(before.Add(ttl/10)) || lease.Err() != nil })
		}
	}
	renewed(1)
	first := logins.Load()
	renewed(4)
	if more := logins.Load() - first; more != 0 {
		t.Errorf("four renewals took %d logins, want none: each costs the servers the hash of a password", more)
	}
	// All logins end with the switch.
	if _, err := root.AuthDisable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := root.AuthEnable(t.Context()); err != nil {
		t.Fatal(err)
	}
	renewed(4)
	if err := lease.Err(); err != nil {
		t.Errorf("the server has forgotten all logins, and the lease is lost: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("after another login a release fails: %v", err)
	}
}

// TestLeasesLostWithTheirRight: a holder that may not write its key any more is lost when its time is
// over, and is told why.
func TestLeasesLostWithTheirRight(t *testing.T) {
	t.Parallel()
	addr, root := serverOfUsers(t)
	for _, tt := range []struct {
		take func(ctx context.Context) (any, error)
		says string
		is   error
	}{
		{func(ctx context.Context) (any, error) { return root.UserRevokeRole(ctx, "app", "apps") },
			`user "app" may not renew the lease any more`, rpctypes.ErrPermissionDenied},
		{func(ctx context.Context) (any, error) { return root.UserDelete(ctx, "app") },
			`the server does not know user "app" any more`, rpctypes.ErrAuthFailed},
	} {
		if _, err := root.UserGrantRole(t.Context(), "app", "apps"); err != nil {
			t.Fatal(err)
		}
		l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{addr}, Username: "app", Password: "a"})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "app/job", TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tt.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-lease.Done()
		if err := lease.Err(); !errors.Is(err, tenure.ErrLost) || !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("the lease is lost with %v, want %q", err, tt.says)
		}
		l.Close()
	}
}
