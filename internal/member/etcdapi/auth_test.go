package etcdapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

func lockRequest(name string) proto.Message { return &v3lockpb.LockRequest{Name: []byte(name)} }

func callerNow(s *served, user string) auth.Caller { return s.Users().Named(user) }

// userClient is etcd's own client, of a user.
func (s *served) userClient(user, password string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"passthrough:fake"}, DialOptions: []grpc.DialOption{s.dialer()}, Username: user, Password: password,
	})
	if err == nil {
		s.t.Cleanup(func() { c.Close() })
	}
	return c, err
}

// Etcd's client sets users up, puts them in force, and lives with that.
func TestUsersByEtcdsClient(t *testing.T) {
	f := newFake(t, watch.Config{})
	var c Config
	f.withLogins(t, &c)
	var requests []proto.Message
	f.proposed = func(m proto.Message) { requests = append(requests, proto.Clone(m)) }
	s := f.serve(t, c)
	ctx, cl := t.Context(), s.client()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cl.AuthEnable(ctx); !errors.Is(err, rpctypes.ErrRootUserNotExist) {
		t.Errorf("enabled without root: %v", err)
	}
	must(cl.UserAdd(ctx, "root", "rootpw"))
	if _, err := cl.UserAdd(ctx, "root", "x"); !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		t.Errorf("root twice: %v", err)
	}
	must(cl.UserGrantRole(ctx, "root", "root"))
	must(cl.RoleAdd(ctx, "r"))
	must(cl.RoleGrantPermission(ctx, "r", "k", "l", clientv3.PermissionType(clientv3.PermReadWrite)))
	must(cl.UserAdd(ctx, "ann", "annpw"))
	must(cl.UserGrantRole(ctx, "ann", "r"))
	must(cl.UserAddWithOptions(ctx, "cert", "", &clientv3.UserAddOptions{NoPassword: true}))
	must(cl.AuthEnable(ctx))
	if _, err := cl.Get(ctx, "k"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("a get by nobody: %v", err)
	}
	st, err := cl.AuthStatus(ctx)
	if err != nil || !st.Enabled || st.AuthRevision != s.Users().Revision() || st.Header.GetMemberId() != 11 {
		t.Errorf("the status is %v, %v, want it for everybody", st, err)
	}
	for name, password := range map[string]string{"ann": "x", "nobody": "annpw", "cert": "annpw"} {
		if _, err := s.userClient(name, password); err == nil {
			t.Errorf("%s logs in with %q", name, password)
		}
	}
	ann, err := s.userClient("ann", "annpw")
	must(ann, err)
	must(ann.Put(ctx, "k", "v"))
	if _, err := ann.Put(ctx, "z", "v"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a put without rights: %v", err)
	}
	root, err := s.userClient("root", "rootpw")
	must(root, err)
	must(root.UserChangePassword(ctx, "ann", "new-one"))
	if _, err := ann.Put(ctx, "k", "v"); err == nil {
		t.Error("a token counts after a change of the password")
	}
	list, err := root.UserList(ctx)
	if err != nil || !slices.Equal(list.Users, []string{"ann", "cert", "root"}) || list.Header.GetClusterId() != 22 {
		t.Errorf("users: %v, %v", list, err)
	}
	got, err := root.UserGet(ctx, "ann")
	if err != nil || !slices.Equal(got.Roles, []string{"r"}) || got.Header.GetMemberId() != 11 {
		t.Errorf("ann: %v, %v", got, err)
	}
	if _, err := root.UserGet(ctx, "x"); !errors.Is(err, rpctypes.ErrUserNotFound) {
		t.Errorf("a user that is not: %v", err)
	}
	role, err := root.RoleGet(ctx, "r")
	if err != nil || len(role.Perm) != 1 || string(role.Perm[0].RangeEnd) != "l" || role.Header.GetMemberId() != 11 {
		t.Errorf("the role: %v, %v", role, err)
	}
	if _, err := root.RoleGet(ctx, "x"); !errors.Is(err, rpctypes.ErrRoleNotFound) {
		t.Errorf("a role that is not: %v", err)
	}
	roles, err := root.RoleList(ctx)
	if err != nil || !slices.Equal(roles.Roles, []string{"r"}) || roles.Header.GetMemberId() != 11 {
		t.Errorf("roles: %v, %v", roles, err)
	}
	must(root.RoleRevokePermission(ctx, "r", "k", "l"))
	must(root.UserRevokeRole(ctx, "ann", "r"))
	must(root.RoleDelete(ctx, "r"))
	must(root.UserDelete(ctx, "ann"))
	must(root.AuthDisable(ctx))
	must(cl.Get(ctx, "k"))
	for _, r := range requests {
		for _, secret := range []string{"rootpw", "annpw", "new-one"} {
			if strings.Contains(prototext.Format(r), secret) {
				t.Errorf("a request that is replicated has the password %s: a %T", secret, r)
			}
		}
	}
}

// A client cannot choose the hash: what it brings is not passed on.
func TestHashesOfClientsAreNotPassedOn(t *testing.T) {
	f := newFake(t, watch.Config{})
	var c Config
	f.withLogins(t, &c)
	s, own := f.serve(t, c), hashOf(t, "mine")
	a := pb.NewAuthClient(s.conn)
	check := func(name, password string) {
		t.Helper()
		f.proposed = func(m proto.Message) {
			m2 := m.(interface{ GetHashedPassword() string })
			hash, err := base64.StdEncoding.DecodeString(m2.GetHashedPassword())
			if err != nil || bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil {
				t.Errorf("%s has the hash of another password than %q: it is the client's: %v", name, password, m2.GetHashedPassword() == own)
			}
		}
	}
	check("a new user", "pw")
	if _, err := a.UserAdd(t.Context(), &pb.AuthUserAddRequest{Name: "ann", Password: "pw", HashedPassword: own}); err != nil {
		t.Fatal(err)
	}
	check("a user", "pw2")
	if _, err := a.UserChangePassword(t.Context(), &pb.AuthUserChangePasswordRequest{Name: "ann", Password: "pw2", HashedPassword: own}); err != nil {
		t.Fatal(err)
	}
	f.proposed = nil
	if _, err := a.UserAdd(t.Context(), &pb.AuthUserAddRequest{Password: "pw"}); !same(err, rpctypes.ErrGRPCUserEmpty) {
		t.Errorf("a user without a name: %v", err)
	}
	if _, err := a.UserAdd(t.Context(), &pb.AuthUserAddRequest{Name: "bob", Password: strings.Repeat("x", 73)}); status.Code(err) != codes.Unknown {
		t.Errorf("a password that is too long: %v", err)
	}
}

// No request keeps its password for those that see it later: interceptors, and the line of a call that took long.
func TestRequestsKeepNoPassword(t *testing.T) {
	s := serveUsers(t, Config{})
	a := &authServer{Server: s.server}
	ctx := caller.With(t.Context(), callerNow(s, "root"))
	login := &pb.AuthenticateRequest{Name: "ann", Password: "ann"}
	add := &pb.AuthUserAddRequest{Name: "bob", Password: "pw"}
	change := &pb.AuthUserChangePasswordRequest{Name: "bob", Password: "pw2"}
	if _, err := a.Authenticate(ctx, login); err != nil || login.Password != "" {
		t.Errorf("a login: %v, and its request is %v", err, login)
	}
	if _, err := a.UserAdd(ctx, add); err != nil || add.Password != "" {
		t.Errorf("a new user: %v, and its request is %v", err, add)
	}
	if _, err := a.UserChangePassword(ctx, change); err != nil || change.Password != "" {
		t.Errorf("another password: %v, and its request is %v", err, change)
	}
}

// A call that lasts is judged by the users as they are now, as long as what its caller proved counts.
func TestCallersAsTheyAreNow(t *testing.T) {
	s := serveUsers(t, Config{})
	begun := callerNow(s, "ann")
	ctx := caller.With(t.Context(), begun)
	if got := caller.Of(s.server.asNow(ctx)); got != begun {
		t.Errorf("while nothing changes: judged as %+v, want %+v", got, begun)
	}
	s.be(t, &pb.AuthRoleAddRequest{Name: "more"})
	if got := caller.Of(s.server.asNow(ctx)); got != callerNow(s, "ann") || got == begun {
		t.Errorf("behind a change: judged as %+v, want %+v", got, callerNow(s, "ann"))
	}
	s.be(t, &pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashOf(t, "new")})
	if got := caller.Of(s.server.asNow(ctx)); got != begun {
		t.Errorf("behind another password: judged as %+v, want as %+v, which is refused", got, begun)
	}
	if got := caller.Of(s.server.asNow(t.Context())); got != (auth.Caller{}) {
		t.Errorf("nobody is judged as %+v", got)
	}
}

// Without logins nobody can be shut out, nor log in.
func TestWithoutLogins(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	a := pb.NewAuthClient(s.conn)
	if _, err := a.Authenticate(t.Context(), &pb.AuthenticateRequest{Name: "ann", Password: "x"}); !same(err, rpctypes.ErrGRPCAuthNotEnabled) {
		t.Errorf("a login: %v", err)
	}
	if _, err := a.UserAdd(t.Context(), &pb.AuthUserAddRequest{Name: "ann", Password: "x"}); !same(err, rpctypes.ErrGRPCAuthNotEnabled) {
		t.Errorf("a user: %v", err)
	}
	s.enableUsers(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "token", "x.1")
	if err := s.call(ctx, pb.KV_Range_FullMethodName, rangeOf("a", "")); !same(err, rpctypes.ErrGRPCInvalidAuthToken) {
		t.Errorf("a token: %v", err)
	}
}

// A token is looked for where etcd's clients and the gateway have it.
func TestWhereTokensAre(t *testing.T) {
	s := serveUsers(t, Config{})
	token := tokenOf(t, s.as("ann"))
	for _, pairs := range [][]string{{"token", token}, {"authorization", token}, {"authorization", "Bearer " + token}, {"token", token, "authorization", "x"}} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), pairs...)
		if err := s.call(ctx, pb.KV_Range_FullMethodName, rangeOf("a/1", "")); err != nil {
			t.Errorf("a token in %v: %v", pairs, err)
		}
	}
}

// certified is the context of a connection whose client has shown certificates.
func certified(ctx context.Context, names ...string) context.Context {
	var chains [][]*x509.Certificate
	for _, name := range names {
		chains = append(chains, []*x509.Certificate{{Subject: pkix.Name{CommonName: name}}, {Subject: pkix.Name{CommonName: "root"}}})
	}
	info := credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: chains}}
	return peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{}, AuthInfo: info})
}

// The name in a certificate is a user if that is configured, there is no token, and no gateway between.
func TestNamesInCertificates(t *testing.T) {
	f := newFake(t, watch.Config{})
	f.enableUsers(t)
	own, open := New(f, Config{CertificateUsers: true}), New(f, Config{})
	ctx := t.Context()
	for _, tt := range []struct {
		name   string
		server *Server
		ctx    context.Context
		user   string
		err    error
	}{
		{"a certificate", own, certified(ctx, "ann"), "ann", nil},
		{"two chains", own, certified(ctx, "ann", "root"), "ann", nil},
		{"no certificate", own, certified(ctx), "", nil},
		{"a certificate without a name", own, certified(ctx, "", "root"), "", nil},
		{"no connection", own, ctx, "", nil},
		{"a connection without TLS", own, peer.NewContext(ctx, &peer.Peer{}), "", nil},
		{"a gateway's", own, metadata.NewIncomingContext(certified(ctx, "root"), metadata.Pairs(gatewayHeader, "x")), "", nil},
		{"where names are none", open, certified(ctx, "root"), "", nil},
		{"with a token", own, metadata.NewIncomingContext(certified(ctx, "root"), metadata.Pairs("token", "x")), "", auth.ErrInvalidToken},
	} {
		if c, err := tt.server.identify(tt.ctx); c.User != tt.user || !errors.Is(err, tt.err) || c.Member || tt.user != "" && c.Revision != f.Users().Revision() {
			t.Errorf("%s: %+v, %v, want %q, %v", tt.name, c, err, tt.user, tt.err)
		}
	}
}

// Changes of members and of read leases are judged by the newest users, whatever is published here.
func TestWhatIsJudgedBehindABarrier(t *testing.T) {
	f := newFake(t, watch.Config{})
	var c Config
	f.withLogins(t, &c)
	s := New(enabling{f, t}, c)
	for method, r := range rules {
		if r.by != byBarrier {
			continue
		}
		f.users.Store(nil)
		if _, _, err := s.authorize(t.Context(), method, &pb.AuthEnableRequest{}); !same(err, rpctypes.ErrGRPCUserEmpty) {
			t.Errorf("%s, at a member that has not heard of users: %v, want %v", method, err, rpctypes.ErrGRPCUserEmpty)
		}
	}
	for _, method := range []string{
		pb.Cluster_MemberAdd_FullMethodName, pb.Cluster_MemberRemove_FullMethodName, pb.Cluster_MemberUpdate_FullMethodName,
		pb.Cluster_MemberPromote_FullMethodName, "/tenure.readlease.v1.ReadLease/Set",
	} {
		lost := New(lost{f}, c)
		if _, _, err := lost.authorize(t.Context(), method, &pb.AuthEnableRequest{}); !same(err, rpctypes.ErrGRPCNoLeader) {
			t.Errorf("%s, at a member that cannot hear of the newest users: %v, want %v", method, err, rpctypes.ErrGRPCNoLeader)
		}
		if rules[method].by != byBarrier {
			t.Errorf("%s is judged nowhere else, and is not judged behind a barrier", method)
		}
	}
}

// lost has no leader that could tell it the newest state.
type lost struct{ *fake }

func (lost) Barrier(context.Context) error { return rpctypes.ErrGRPCNoLeader }

// enabling hears of users at a barrier.
type enabling struct {
	*fake
	t *testing.T
}

func (b enabling) Barrier(ctx context.Context) error {
	b.enableUsers(b.t)
	return b.fake.Barrier(ctx)
}

// The log has changes, who made them, and failed logins; and no secret.
func TestAudit(t *testing.T) {
	var out bytes.Buffer
	f := newFake(t, watch.Config{})
	c := Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}
	f.withLogins(t, &c)
	f.enableUsers(t)
	s := f.serve(t, c)
	root, ann := s.as("root"), s.as("ann")
	grant := permission("anns", authpb.READ, "key", "kez")
	revoke := &pb.AuthRoleRevokePermissionRequest{Role: "anns", Key: []byte("key"), RangeEnd: []byte("kez")}
	for _, tt := range []struct {
		ctx    context.Context
		method string
		r      proto.Message
		want   []string
	}{
		{root, pb.Auth_UserAdd_FullMethodName, &pb.AuthUserAddRequest{Name: "bob", Password: "secret1"}, []string{"INFO", "UserAdd", "by=root", "user=bob", "from="}},
		{ann, pb.Auth_UserDelete_FullMethodName, &pb.AuthUserDeleteRequest{Name: "bob"}, []string{"WARN", "UserDelete", "by=ann", "user=bob", "permission denied"}},
		{root, pb.Auth_UserChangePassword_FullMethodName, &pb.AuthUserChangePasswordRequest{Name: "bob", Password: "secret2"}, []string{"INFO", "UserChangePassword", "user=bob"}},
		{root, pb.Auth_UserGrantRole_FullMethodName, &pb.AuthUserGrantRoleRequest{User: "bob", Role: "anns"}, []string{"user=bob", "role=anns"}},
		{root, pb.Auth_UserRevokeRole_FullMethodName, &pb.AuthUserRevokeRoleRequest{Name: "bob", Role: "anns"}, []string{"user=bob", "role=anns"}},
		{root, pb.Auth_RoleAdd_FullMethodName, &pb.AuthRoleAddRequest{Name: "more"}, []string{"role=more"}},
		{root, pb.Auth_RoleDelete_FullMethodName, &pb.AuthRoleDeleteRequest{Role: "more"}, []string{"role=more"}},
		{root, pb.Auth_RoleGrantPermission_FullMethodName, grant, []string{"role=anns", "key=key", "range_end=kez", "permission=READ"}},
		{root, pb.Auth_RoleRevokePermission_FullMethodName, revoke, []string{"role=anns", "key=key", "range_end=kez"}},
		{root, pb.Cluster_MemberAdd_FullMethodName, &pb.MemberAddRequest{PeerURLs: []string{"http://p2"}}, []string{"MemberAdd", "by=root", "http://p2", "learner=false"}},
		{root, pb.Cluster_MemberUpdate_FullMethodName, &pb.MemberUpdateRequest{ID: 12, PeerURLs: []string{"http://p3"}}, []string{"member=12", "http://p3"}},
		{root, pb.Cluster_MemberPromote_FullMethodName, &pb.MemberPromoteRequest{ID: 12}, []string{"member=12"}},
		{root, pb.Cluster_MemberRemove_FullMethodName, &pb.MemberRemoveRequest{ID: 12}, []string{"MemberRemove", "member=12"}},
		{root, pb.Maintenance_MoveLeader_FullMethodName, &pb.MoveLeaderRequest{TargetID: 13}, []string{"member=13"}},
		{t.Context(), pb.Maintenance_Snapshot_FullMethodName, &pb.SnapshotRequest{}, []string{"WARN", "Snapshot", "user name is empty"}},
		{t.Context(), pb.Auth_Authenticate_FullMethodName, &pb.AuthenticateRequest{Name: "ann", Password: "secret3"}, []string{"WARN", "login", "user=ann", "from="}},
		{root, pb.Auth_UserDelete_FullMethodName, &pb.AuthUserDeleteRequest{Name: strings.Repeat("x", 999)}, []string{"user=" + strings.Repeat("x", 256) + " "}},
		{t.Context(), pb.KV_Put_FullMethodName, &pb.PutRequest{Key: []byte("a/1"), Value: []byte("secret4")}, nil},
	} {
		out.Reset()
		err := s.call(tt.ctx, tt.method, tt.r)
		line := out.String()
		for _, want := range tt.want {
			if !strings.Contains(line, want) {
				t.Errorf("%s, %v: the log says %q, want %q too", tt.method, err, line, want)
			}
		}
		if tt.want == nil && line != "" {
			t.Errorf("%s: the log says %q, want nothing of it", tt.method, line)
		}
		for _, secret := range []string{"secret", tokenOf(t, root), "$2a$"} {
			if strings.Contains(line, secret) {
				t.Errorf("%s: the log has a secret: %q", tt.method, line)
			}
		}
	}
}
