package login

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/authpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// member is a Backend that applies at once. Late changes are published with the next Barrier.
type member struct {
	t        *testing.T
	users    *auth.State
	late     *auth.State
	index    uint64
	given    []replica.Token
	barriers int
	proposed []proto.Message
	before   func() // runs once before the next proposal is applied
	fails    error
}

func (m *member) Users() *auth.State { return m.users }

func (m *member) Barrier(context.Context) error {
	m.barriers++
	if m.late != nil {
		m.users, m.late = m.late, nil
	}
	return m.fails
}

func (m *member) Propose(ctx context.Context, r proto.Message) (proto.Message, error) {
	if f := m.before; f != nil {
		m.before = nil
		f()
	}
	m.proposed = append(m.proposed, r)
	next, resp, err := m.users.Apply(caller.Of(ctx), r)
	if err != nil {
		return nil, err
	}
	m.users = next
	m.index++
	if in, ok := r.(*pb.InternalAuthenticateRequest); ok {
		m.given = append(m.given, replica.Token{Digest: in.SimpleToken, Index: m.index, User: in.Name, Revision: next.Revision()})
		resp = &pb.AuthenticateResponse{Token: strconv.FormatUint(m.index, 10)}
	}
	return resp, nil
}

func (m *member) do(list ...proto.Message) {
	m.t.Helper()
	for _, r := range list {
		if _, err := m.Propose(m.t.Context(), r); err != nil {
			m.t.Fatalf("%T: %v", r, err)
		}
	}
}

func hashed(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(hash)
}

// inForce is a member with the users root, ann and cert; cert has no password.
func inForce(t *testing.T) *member {
	m := &member{t: t, users: auth.New(), index: 10}
	m.do(&pb.AuthUserAddRequest{Name: "root", HashedPassword: hashed(t, "secret")}, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"},
		&pb.AuthUserAddRequest{Name: "ann", HashedPassword: hashed(t, "pw")},
		&pb.AuthUserAddRequest{Name: "cert", Options: &authpb.UserAddOptions{NoPassword: true}}, &pb.AuthEnableRequest{})
	return m
}

func authority(t *testing.T, m *member, c Config) *Authority {
	t.Helper()
	c.Cost = bcrypt.MinCost
	a, err := New(m, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// logIn logs a user in, and adds the token.
func logIn(t *testing.T, a *Authority, m *member, name, password string) string {
	t.Helper()
	token, err := a.Authenticate(t.Context(), name, password)
	if err != nil {
		t.Fatal(err)
	}
	for _, given := range m.given {
		a.Assigned(given)
	}
	m.given = nil
	return token
}

func TestAuthenticate(t *testing.T) {
	m := inForce(t)
	a := authority(t, m, Config{})
	for _, tt := range []struct {
		name, password string
		want           error
	}{{"ann", "pw", nil}, {"ann", "wrong", auth.ErrFailed}, {"ann", "", auth.ErrFailed}, {"nobody", "pw", auth.ErrFailed}, {"nobody", "nobody", auth.ErrFailed},
		{"cert", "", auth.ErrNoPassword}, {"cert", "nobody", auth.ErrNoPassword}} {
		token, err := a.Authenticate(t.Context(), tt.name, tt.password)
		if !errors.Is(err, tt.want) || (token == "") != (err != nil) {
			t.Errorf("%s with %q: got the token %q, %v, want the error %v", tt.name, tt.password, token, err, tt.want)
		}
	}
	m.do(&pb.AuthDisableRequest{})
	if _, err := a.Authenticate(t.Context(), "ann", "pw"); !errors.Is(err, auth.ErrNotEnabled) {
		t.Errorf("while users are not in force: got %v, want %v", err, auth.ErrNotEnabled)
	}
	m.fails = errors.New("no leader")
	if _, err := a.Authenticate(t.Context(), "ann", "pw"); !errors.Is(err, m.fails) {
		t.Errorf("got %v, want %v", err, m.fails)
	}
}

// The newest password counts, also if it changes while it is checked.
func TestAuthenticateWhileThePasswordChanges(t *testing.T) {
	m := inForce(t)
	a := authority(t, m, Config{})
	m.before = func() {
		m.do(&pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashed(t, "new")})
	}
	if token, err := a.Authenticate(t.Context(), "ann", "pw"); !errors.Is(err, auth.ErrFailed) {
		t.Errorf("with a password that is changed meanwhile: got %q, %v, want %v", token, err, auth.ErrFailed)
	}
	m.before = func() {
		m.do(&pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashed(t, "new")})
	}
	if _, err := a.Authenticate(t.Context(), "ann", "new"); err != nil {
		t.Errorf("with a password that is set again meanwhile: %v", err)
	}
}

// The log has neither password nor token.
func TestTheLogHasNoSecret(t *testing.T) {
	m := inForce(t)
	a := authority(t, m, Config{})
	m.proposed = nil
	token := logIn(t, a, m, "ann", "pw")
	secret, _, _ := strings.Cut(token, ".")
	if len(m.proposed) != 1 {
		t.Fatalf("got %v", m.proposed)
	}
	r := m.proposed[0].(*pb.InternalAuthenticateRequest)
	if r.Password != "" || strings.Contains(r.SimpleToken, secret) || r.SimpleToken != digest(secret) {
		t.Errorf("the token %q is in the log as %v", token, r)
	}
}

func TestIdentify(t *testing.T) {
	m := inForce(t)
	a := authority(t, m, Config{})
	token := logIn(t, a, m, "ann", "pw")
	check := func(name, token string, want error) {
		t.Helper()
		got, err := a.Identify(t.Context(), token)
		if !errors.Is(err, want) || err == nil && got != (auth.Caller{User: "ann", Revision: m.users.Revision()}) {
			t.Errorf("%s: got %+v, %v, want the error %v", name, got, err, want)
		}
	}
	check("a token", token, nil)
	check("a bearer's", "Bearer "+token, nil)
	m.barriers = 0
	for _, bad := range []string{"", ".", "x", token[1:], strings.TrimRight(token, "0123456789"), "x.1.2", token + "0"} {
		check("the token "+bad, bad, auth.ErrInvalidToken)
	}
	if m.barriers != 2 {
		t.Errorf("nonsense makes %d rounds, want two, for what could be tokens", m.barriers)
	}
	m.do(&pb.AuthRoleAddRequest{Name: "r"})
	check("a token, after a change of roles", token, nil)
	m.do(&pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashed(t, "new")})
	check("a token from before the password changed", token, auth.ErrInvalidToken)
	token = logIn(t, a, m, "ann", "new")
	check("a new one", token, nil)
	m.do(&pb.AuthDisableRequest{}, &pb.AuthEnableRequest{})
	check("a token from before users were switched off", token, auth.ErrInvalidToken)
	token = logIn(t, a, m, "ann", "new")
	m.do(&pb.AuthUserDeleteRequest{Name: "ann"})
	check("the token of a user that is gone", token, auth.ErrInvalidToken)
}

// A token that another member has given is known after a look at the newest state.
func TestIdentifyOnAMemberThatLags(t *testing.T) {
	m := inForce(t)
	a := authority(t, m, Config{})
	behind := m.users
	m.do(&pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashed(t, "new")})
	token := logIn(t, a, m, "ann", "new")
	m.barriers = 0
	if _, err := a.Identify(t.Context(), token); err != nil || m.barriers != 0 {
		t.Errorf("for a token that is known, the newest state is waited for %d times: %v", m.barriers, err)
	}
	m.users, m.late = behind, m.users
	if got, err := a.Identify(t.Context(), token); err != nil || got.User != "ann" {
		t.Errorf("got %+v, %v, want ann", got, err)
	}
	m.fails = errors.New("no leader")
	if _, err := a.Identify(t.Context(), "abc.7"); !errors.Is(err, m.fails) {
		t.Errorf("got %v, want %v", err, m.fails)
	}
}

// A token lasts as long as it is used.
func TestTokensEnd(t *testing.T) {
	s := newSimple(time.Minute)
	now := time.Now()
	s.now = func() time.Time { return now }
	shown := func(i int) string { return "secret." + strconv.Itoa(i) }
	for i := range 3 {
		s.Add(replica.Token{Digest: digest("secret"), Index: uint64(i), User: "ann"})
	}
	now = now.Add(59 * time.Second)
	if got, ok := s.find(shown(0)); !ok || got.User != "ann" {
		t.Error("a token is forgotten before its time")
	}
	now = now.Add(time.Second)
	if _, ok := s.find(shown(1)); ok {
		t.Error("a token that nobody used is known beyond its time")
	}
	if len(s.known) != 1 || s.order.Len() != 1 {
		t.Errorf("%d and %d tokens are remembered, want one", len(s.known), s.order.Len())
	}
	now = now.Add(58 * time.Second)
	if _, ok := s.find(shown(0)); !ok {
		t.Error("a token that was used is forgotten before its time")
	}
	s.Add(replica.Token{Digest: digest("secret"), Index: 0, User: "bob"})
	if got, _ := s.find(shown(0)); got.User != "ann" {
		t.Errorf("a token is of %q by now", got.User)
	}
}

func TestTokensHaveALimit(t *testing.T) {
	s := newSimple(time.Hour)
	for i := range maxTokens + 5 {
		s.Add(replica.Token{Digest: "d", Index: uint64(i)})
	}
	if len(s.known) != maxTokens || s.order.Len() != maxTokens {
		t.Errorf("%d and %d tokens are remembered, want %d", len(s.known), s.order.Len(), maxTokens)
	}
	if s.known[place{"d", 4}] != nil || s.known[place{"d", 5}] == nil {
		t.Error("the tokens that were used last are forgotten, and not the oldest")
	}
}

// A flood of logins waits, and is refused beyond a bound.
func TestLoginsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPasswords(bcrypt.MinCost)
		var ends []func()
		for p.turns.TryAcquire(1) {
			ends = append(ends, func() { p.turns.Release(1) })
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, maxWaiting)
		for range maxWaiting {
			go func() { errs <- p.check(ctx, nil, "x") }()
		}
		synctest.Wait()
		if err := p.check(t.Context(), nil, "x"); !errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests) {
			t.Errorf("one more than may wait: got %v", err)
		}
		cancel()
		for range maxWaiting {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Errorf("a call that was given up: got %v", err)
			}
		}
		for _, end := range ends {
			end()
		}
		if _, err := p.Hash(t.Context(), "x"); err != nil || p.waiting.Load() != 0 {
			t.Errorf("when nobody waits: %v, and %d wait", err, p.waiting.Load())
		}
	})
}

func TestHash(t *testing.T) {
	p := newPasswords(5)
	hash, err := p.Hash(t.Context(), "pw")
	if cost, _ := bcrypt.Cost(hash); err != nil || cost != 5 || p.check(t.Context(), hash, "pw") != nil {
		t.Errorf("a hash of cost %d, %v, want 5", cost, err)
	}
	if _, err := p.Hash(t.Context(), strings.Repeat("x", 73)); err == nil {
		t.Error("a password that is longer than what bcrypt looks at is taken")
	}
}

func TestConfigsThatCannotBe(t *testing.T) {
	for _, c := range []Config{{TTL: -1}, {Cost: 3}, {Cost: 32}, {Tokens: "other"}, {Tokens: "simple,ttl=1s"}, {Tokens: "jwt"}} {
		if _, err := New(&member{}, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	a, err := New(&member{}, Config{})
	if err != nil || a.signed != nil || a.simple.ttl != 300*time.Second || a.Passwords().cost != 10 {
		t.Errorf("by default: got %+v, %v", a, err)
	}
}

// So is a signed token: it may tell of a state that is newer than this member's.
func TestSignedTokensOnAMemberThatLags(t *testing.T) {
	m := inForce(t)
	a := authority(t, m, Config{Tokens: "jwt,sign-method=HS256,priv-key=" + secret(t, "shared")})
	behind := m.users
	m.do(&pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashed(t, "new")})
	token := logIn(t, a, m, "ann", "new")
	m.users, m.late = behind, m.users
	m.barriers = 0
	if got, err := a.Identify(t.Context(), token); err != nil || got.User != "ann" || m.barriers != 1 {
		t.Errorf("got %+v, %v after %d waits for the newest state, want ann after one", got, err, m.barriers)
	}
}

// Nobody waits for a turn to learn that users are not in force. A call that was given up while it waited says so,
// and not whether there is such a user.
func TestLoginsThatNeedNoTurn(t *testing.T) {
	m := inForce(t)
	a := authority(t, m, Config{})
	for a.passwords.turns.TryAcquire(1) {
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Authenticate(ctx, "nobody", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up: got %v", err)
	}
	m.do(&pb.AuthDisableRequest{})
	if _, err := a.Authenticate(ctx, "ann", "pw"); !errors.Is(err, auth.ErrNotEnabled) {
		t.Errorf("while users are not in force, and no turn is free: got %v", err)
	}
}

// A password of nobody is compared with a hash of the same cost, so that it takes as long as a user's.
func TestNobodysPasswordTakesAsLong(t *testing.T) {
	p := newPasswords(bcrypt.MinCost)
	var costs []int
	p.compare = func(hash, password []byte) error {
		cost, err := bcrypt.Cost(hash)
		if err != nil {
			t.Errorf("compared with %q: %v", hash, err)
		}
		costs = append(costs, cost)
		return nil
	}
	if err := p.check(t.Context(), nil, "x"); !errors.Is(err, auth.ErrFailed) || len(costs) != 1 || costs[0] != bcrypt.MinCost {
		t.Errorf("nobody's password was compared with hashes of cost %v, %v; want one of %d, and that it fails", costs, err, bcrypt.MinCost)
	}
}
