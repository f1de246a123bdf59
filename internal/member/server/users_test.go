package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/node"
)

// dialAs is a client of a user.
func dialAs(tb testing.TB, user, password string, endpoints ...string) (*clientv3.Client, error) {
	tb.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Username: user, Password: password, DialTimeout: 10 * time.Second})
	if err == nil {
		tb.Cleanup(func() { c.Close() })
	}
	return c, err
}

// enableUsers puts root and ann in force, who may read and write the keys that begin with "a". Each
// has its name as its password.
func enableUsers(tb testing.TB, c *clientv3.Client) {
	tb.Helper()
	ctx := tb.Context()
	do := func(_ any, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	do(c.UserAdd(ctx, "root", "root"))
	do(c.UserGrantRole(ctx, "root", "root"))
	do(c.RoleAdd(ctx, "anns"))
	do(c.RoleGrantPermission(ctx, "anns", "a", "b", clientv3.PermissionType(clientv3.PermReadWrite)))
	do(c.UserAdd(ctx, "ann", "ann"))
	do(c.UserGrantRole(ctx, "ann", "anns"))
	do(c.AuthEnable(ctx))
}

// A token that one member has given counts at all of them, and so does its end.
func TestUsersOfACluster(t *testing.T) {
	servers, endpoints := startWith(t, 3, func(c *Config) { c.Logins = login.Config{Cost: bcrypt.MinCost} })
	ctx, open := t.Context(), dial(t, endpoints[1])
	enableUsers(t, open)
	ann, err := dialAs(t, "ann", "ann", endpoints[2])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range endpoints { // each has to recognise the one token
		ann.SetEndpoints(e)
		if _, err := ann.Put(ctx, "a", e); err != nil {
			t.Errorf("ann at %s: %v", e, err)
		}
		if _, err := ann.Get(ctx, "z"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("ann at %s, of a key of others: %v", e, err)
		}
		if _, err := ann.MemberAdd(ctx, []string{"http://127.0.0.1:1"}); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("ann adds a member at %s: %v", e, err)
		}
	}
	if _, err := open.Get(ctx, "a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("nobody reads: %v", err)
	}
	if _, err := dialAs(t, "ann", "wrong", endpoints...); !errors.Is(err, rpctypes.ErrAuthFailed) {
		t.Errorf("a wrong password: %v", err)
	}
	g := gatewayOf(t, endpoints[0])
	if status, out := g.post("/v3/kv/range", `{"key":"YQ=="}`); status != http.StatusBadRequest {
		t.Errorf("by JSON, nobody: %d %v", status, out)
	}
	token := g.want("/v3/auth/authenticate", `{"name":"ann","password":"ann"}`)["token"].(string)
	for value, want := range map[string]int{token: http.StatusOK, "Bearer " + token: http.StatusOK, "x": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+"/v3/kv/range", strings.NewReader(`{"key":"YQ=="}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", value)
		resp, err := g.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("by JSON with a token: %d, want %d", resp.StatusCode, want)
		}
	}
	for _, s := range servers {
		if err := s.api.Probe(ctx, false); err != nil {
			t.Errorf("a health check needs a user: %v", err)
		}
	}
}

// names makes certificates of an authority.
func names(t *testing.T, list ...string) (server *tls.Config, clients []*tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	sign := func(cert *x509.Certificate) tls.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, cert, authority, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	own := sign(authority)
	parsed, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	for i, name := range list {
		cert := sign(&x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), NotAfter: time.Now().Add(time.Hour), Subject: pkix.Name{CommonName: name},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		clients = append(clients, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}})
	}
	return &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}, clients
}

// The name in a certificate is a user, and is none at the gateway, which the name's owner cannot use.
func TestCertificatesOfUsers(t *testing.T) {
	own, clients := names(t, "ann", "stranger", "")
	_, endpoints := startWith(t, 1, func(c *Config) {
		c.ClientTLS, c.API.CertificateUsers, c.Logins = own, true, login.Config{Cost: bcrypt.MinCost}
	})
	ctx := t.Context()
	by := func(c *tls.Config) *clientv3.Client {
		cl, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + endpoints[0]}, TLS: c.Clone(), DialTimeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cl.Close() })
		return cl
	}
	ann := by(clients[0])
	enableUsers(t, ann)
	if _, err := ann.Put(ctx, "a", "1"); err != nil {
		t.Errorf("ann by her certificate: %v", err)
	}
	if _, err := ann.Put(ctx, "z", "1"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("ann, of a key of others: %v", err)
	}
	if _, err := by(clients[1]).Get(ctx, "a"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("a name that is no user: %v", err)
	}
	if _, err := by(clients[2]).Get(ctx, "a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("a certificate without a name: %v", err)
	}
	for i, want := range map[int]string{0: "no user at the gateway", 2: "user name is empty"} {
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: clients[i].Clone()}}
		post, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+endpoints[0]+"/v3/kv/range", strings.NewReader(`{"key":"YQ=="}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Do(post)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 300)
		n, _ := resp.Body.Read(body)
		resp.Body.Close()
		web.CloseIdleConnections()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body[:n]), want) {
			t.Errorf("by JSON with certificate %d: %d %q, want %q", i, resp.StatusCode, body[:n], want)
		}
	}
}

// Tokens of an unknown kind are an error of the start.
func TestTokensOfAnUnknownKind(t *testing.T) {
	peers, clients := listen(t), listen(t)
	_, err := Start(Config{Node: node.Config{PeerListener: peers}, Clients: []net.Listener{clients}, Logins: login.Config{Tokens: "other"}})
	if err == nil || !strings.Contains(err.Error(), "want simple") {
		t.Errorf("got %v, want what there is", err)
	}
	for _, l := range []net.Listener{peers, clients} {
		if l.Close() == nil {
			t.Error("a listener of a member that did not start is left open")
		}
	}
}

// An idle watch ends with its rights, and none ends by a change that takes no right from it.
func TestAnIdleWatchEndsWithItsRights(t *testing.T) {
	_, endpoints := startWith(t, 1, func(c *Config) { c.Logins = login.Config{Cost: bcrypt.MinCost} })
	ctx, open := t.Context(), dial(t, endpoints[0])
	enableUsers(t, open)
	root, err := dialAs(t, "root", "root", endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	ann, err := dialAs(t, "ann", "ann", endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithTimeout(ctx, 20*time.Second) // one that goes on ends, too, and late
	defer stop()
	w := ann.Watch(watching, "a", clientv3.WithCreatedNotify())
	<-w
	if _, err := root.RoleAdd(ctx, "of nobody"); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Put(ctx, "a", ""); err != nil {
		t.Fatal(err)
	}
	if r := <-w; len(r.Events) != 1 {
		t.Errorf("a watch whose rights are left gets %+v, %v", r, r.Err())
	}
	if _, err := root.UserRevokeRole(ctx, "ann", "anns"); err != nil {
		t.Fatal(err)
	}
	if r, more := <-w; more || watching.Err() != nil {
		t.Errorf("an idle watch without rights goes on: %+v, %v", r, watching.Err())
	}
}
