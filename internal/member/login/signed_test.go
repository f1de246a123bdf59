package login

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/state/auth"
)

// pair writes a pair of keys, and returns their files.
func pair(t *testing.T, method string) (public, private string) {
	t.Helper()
	var priv, pub any
	var err error
	switch method[:2] {
	case "RS", "PS":
		var key *rsa.PrivateKey
		key, err = rsa.GenerateKey(rand.Reader, 2048)
		priv, pub = key, &key.PublicKey
	case "ES":
		var key *ecdsa.PrivateKey
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		priv, pub = key, &key.PublicKey
	default:
		pub, priv, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	pkix, err := x509.MarshalPKIXPublicKey(pub)
	public = write("pub", "PUBLIC KEY", pkix, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(priv)
	return public, write("priv", "PRIVATE KEY", pkcs8, err)
}

// secret writes the secret of an HMAC.
func secret(t *testing.T, text string) string {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A token that one member signs is read by another, which may have the public key only.
func TestSignedTokens(t *testing.T) {
	for _, method := range []string{"RS256", "PS256", "ES256", "EdDSA", "HS256"} {
		var signs, reads string
		if method == "HS256" {
			signs = "priv-key=" + secret(t, "shared")
			reads = signs
		} else {
			public, private := pair(t, method)
			signs, reads = "priv-key="+private+",pub-key="+public, "pub-key="+public
		}
		m := inForce(t)
		a, b := authority(t, m, Config{Tokens: "jwt,sign-method=" + method + "," + signs}), authority(t, m, Config{Tokens: "jwt," + reads + ",sign-method=" + method})
		m.proposed = nil
		token, err := a.Authenticate(t.Context(), "ann", "pw")
		if err != nil || len(m.proposed) > 0 {
			t.Fatalf("%s: %v, proposed %v", method, err, m.proposed)
		}
		rev := m.users.Revision()
		m.do(&pb.AuthRoleAddRequest{Name: "r"})
		if got, err := b.Identify(t.Context(), "Bearer "+token); err != nil || got != (auth.Caller{User: "ann", Revision: rev}) {
			t.Errorf("%s: got %+v, %v, want ann at %d", method, got, err, rev)
		}
		if _, err := b.Authenticate(t.Context(), "ann", "pw"); method != "HS256" && !errors.Is(err, errVerifyOnly) {
			t.Errorf("%s: a member without the private key signs: %v", method, err)
		}
		m.do(&pb.AuthUserChangePasswordRequest{Name: "ann", HashedPassword: hashed(t, "new")})
		if _, err := b.Identify(t.Context(), token); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%s: a token from before the password changed: got %v", method, err)
		}
	}
}

// Only the method of this member counts, with its key, for a while.
func TestSignedTokensThatDoNotCount(t *testing.T) {
	public, private := pair(t, "RS256")
	_, other := pair(t, "RS256")
	m := inForce(t)
	a := authority(t, m, Config{Tokens: "jwt,sign-method=RS256,priv-key=" + private + ",ttl=1h"})
	text, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	rev, hour := m.users.Revision(), time.Now().Add(time.Hour).Unix()
	good := jwt.MapClaims{"username": "ann", "revision": rev, "exp": hour}
	sign := func(method jwt.SigningMethod, key any, c jwt.MapClaims) string {
		token, err := jwt.NewWithClaims(method, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	m.barriers = 0
	for name, token := range map[string]string{
		"no method":                  sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good),
		"the public key as a secret": sign(jwt.SigningMethodHS256, text, good),
		"another RSA method":         sign(jwt.SigningMethodRS512, a.signed.sign, good),
		"no end":                     sign(jwt.SigningMethodRS256, a.signed.sign, jwt.MapClaims{"username": "ann", "revision": rev}),
		"over":                       sign(jwt.SigningMethodRS256, a.signed.sign, jwt.MapClaims{"username": "ann", "revision": rev, "exp": time.Now().Unix() - 1}),
		"no user":                    sign(jwt.SigningMethodRS256, a.signed.sign, jwt.MapClaims{"revision": rev, "exp": hour}),
		"nonsense":                   "x.y.z",
	} {
		if got, err := a.Identify(t.Context(), token); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%s: got %+v, %v, want %v", name, got, err, auth.ErrInvalidToken)
		}
	}
	if m.barriers > 0 {
		t.Errorf("tokens that nobody signed make %d rounds", m.barriers)
	}
	b := authority(t, m, Config{Tokens: "jwt,sign-method=RS256,priv-key=" + other})
	if _, err := a.Identify(t.Context(), sign(jwt.SigningMethodRS256, b.signed.sign, good)); !errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("another key: got %v", err)
	}
	if got, err := a.Identify(t.Context(), sign(jwt.SigningMethodRS256, a.signed.sign, good)); err != nil || got.User != "ann" {
		t.Errorf("a good one: got %+v, %v", got, err)
	}
	token, err := a.signed.give("ann", rev)
	if err != nil {
		t.Fatal(err)
	}
	var c claims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &c); err != nil || time.Until(c.ExpiresAt.Time) < 59*time.Minute || time.Until(c.ExpiresAt.Time) > time.Hour {
		t.Errorf("a token of ttl=1h ends at %v, %v", c.ExpiresAt, err)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	public, private := pair(t, "ES256")
	_, other := pair(t, "ES256")
	for text, want := range map[string]string{
		"jwt,priv-key=" + private:                                        "sign-method is missing",
		"jwt,sign-method=none,priv-key=" + private:                       "sign-method is missing",
		"jwt,sign-method=XY256,priv-key=" + private:                      "unknown sign-method",
		"jwt,sign-method=ES256":                                          "is missing",
		"jwt,sign-method=HS256":                                          "needs a priv-key",
		"jwt,sign-method=HS256,priv-key=" + secret(t, ""):                "needs a priv-key",
		"jwt,sign-method=RS256,priv-key=" + private:                      "keys for RS256",
		"jwt,sign-method=RS256,pub-key=" + public:                        "keys for RS256",
		"jwt,sign-method=ES256,priv-key=/nowhere":                        "private key",
		"jwt,sign-method=ES256,pub-key=/nowhere":                         "public key",
		"jwt,sign-method=ES256,pub-key=" + public + ",priv-key=" + other: "do not belong together",
		"jwt,sign-method=ES256,sign-method=ES256,priv-key=" + private:    "each option once",
		"jwt,sign-method=ES256,ttl=0s,priv-key=" + private:               "want a duration",
		"jwt,sign-method=ES256,ttl=x,priv-key=" + private:                "want a duration",
		"jwt,sign-method=ES256,other=x,priv-key=" + private:              "there is no option",
		"jwt,sign-method=ES256,priv-key=":                                "with a value",
		"bearer":                                                         "want simple, or jwt",
	} {
		if _, err := New(&member{}, Config{Tokens: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
}
