package login

import (
	"crypto"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// errVerifyOnly: this member has no private key, so that it cannot give tokens.
var errVerifyOnly = errors.New("login: this member has the public key only, and cannot sign tokens: ask another member")

// signed makes and checks JSON web tokens.
type signed struct {
	method jwt.SigningMethod
	sign   any // nil: it can only verify
	verify any
	ttl    time.Duration
}

// options are those behind "jwt," in etcd's --auth-token.
type options struct {
	method, public, private string
	ttl                     time.Duration
}

// parseOptions reads etcd's --auth-token: "simple", or "jwt" with pub-key, priv-key, sign-method
// and ttl. It returns nil for simple tokens.
func parseOptions(text string) (*options, error) {
	kind, rest, _ := strings.Cut(text, ",")
	switch {
	case kind == "simple" && rest == "":
		return nil, nil
	case kind != "jwt":
		return nil, fmt.Errorf("login: --auth-token %q: want simple, or jwt,sign-method=…,priv-key=…", text)
	}
	o := &options{ttl: 5 * time.Minute}
	seen := map[string]bool{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, ok := strings.Cut(field, "=")
		if !ok || value == "" || seen[name] {
			return nil, fmt.Errorf("login: %q in %q: want each option once, with a value", field, text)
		}
		seen[name] = true
		switch name {
		case "sign-method":
			o.method = value
		case "pub-key":
			o.public = value
		case "priv-key":
			o.private = value
		case "ttl":
			ttl, err := time.ParseDuration(value)
			if err != nil || ttl <= 0 {
				return nil, fmt.Errorf("login: ttl=%s: want a duration, such as 5m", value)
			}
			o.ttl = ttl
		default:
			return nil, fmt.Errorf("login: there is no option %q: want sign-method, pub-key, priv-key or ttl", name)
		}
	}
	if o.method == "" || o.method == "none" {
		return nil, fmt.Errorf("login: %q: a sign-method is missing, such as ES256", text)
	}
	return o, nil
}

// newSigned reads the keys.
func newSigned(o *options) (*signed, error) {
	s := &signed{method: jwt.GetSigningMethod(o.method), ttl: o.ttl}
	var public, private []byte
	var err error
	if o.public != "" {
		if public, err = os.ReadFile(o.public); err != nil {
			return nil, fmt.Errorf("login: public key: %w", err)
		}
	}
	if o.private != "" {
		if private, err = os.ReadFile(o.private); err != nil {
			return nil, fmt.Errorf("login: private key: %w", err)
		}
	}
	switch s.method.(type) {
	case *jwt.SigningMethodHMAC:
		if len(private) == 0 {
			return nil, fmt.Errorf("login: %s needs a priv-key, the secret that all members share", o.method)
		}
		s.sign, s.verify = private, private
	case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS:
		err = takeKeys(s, public, private, jwt.ParseRSAPublicKeyFromPEM, jwt.ParseRSAPrivateKeyFromPEM)
	case *jwt.SigningMethodECDSA:
		err = takeKeys(s, public, private, jwt.ParseECPublicKeyFromPEM, jwt.ParseECPrivateKeyFromPEM)
	case *jwt.SigningMethodEd25519:
		err = takeKeys(s, public, private, jwt.ParseEdPublicKeyFromPEM, jwt.ParseEdPrivateKeyFromPEM)
	default:
		return nil, fmt.Errorf("login: unknown sign-method %q: want RS256, PS256, ES256, EdDSA, HS256 or a longer one of these", o.method)
	}
	if err != nil {
		return nil, fmt.Errorf("login: keys for %s: %w", o.method, err)
	}
	return s, nil
}

// publicKey is a key that can tell whether it is another one.
type publicKey interface{ Equal(crypto.PublicKey) bool }

// takeKeys takes a pair of keys, or one of them. A private key alone gives the public one.
func takeKeys[Pub any, Priv any](s *signed, public, private []byte, readPublic func([]byte) (Pub, error), readPrivate func([]byte) (Priv, error)) error {
	if len(public)+len(private) == 0 {
		return errors.New("a priv-key or a pub-key is missing")
	}
	if len(private) > 0 {
		key, err := readPrivate(private)
		if err != nil {
			return err
		}
		signer, ok := any(key).(crypto.Signer)
		if !ok {
			return errors.New("the private key cannot sign")
		}
		s.sign, s.verify = key, signer.Public()
	}
	if len(public) > 0 {
		key, err := readPublic(public)
		if err != nil {
			return err
		}
		if own, ok := s.verify.(publicKey); s.verify != nil && (!ok || !own.Equal(key)) {
			return errors.New("pub-key and priv-key do not belong together")
		}
		s.verify = key
	}
	return nil
}

// give returns a token of a user, signed as of a revision of the users.
func (s *signed) give(user string, revision uint64) (string, error) {
	if s.sign == nil {
		return "", errVerifyOnly
	}
	claims := jwt.MapClaims{"username": user, "revision": revision, "exp": time.Now().Add(s.ttl).Unix()}
	return jwt.NewWithClaims(s.method, claims).SignedString(s.sign)
}

// claims are etcd's.
type claims struct {
	User     string `json:"username"`
	Revision uint64 `json:"revision"`
	jwt.RegisteredClaims
}

// read returns the user of a token and the revision as of which it was signed. Only the method
// of this member counts, whatever the token says, and it has to have an end.
func (s *signed) read(token string) (user string, revision uint64, ok bool) {
	var c claims
	parsed, err := jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return s.verify, nil },
		jwt.WithValidMethods([]string{s.method.Alg()}), jwt.WithExpirationRequired())
	if err != nil || !parsed.Valid || c.User == "" {
		return "", 0, false
	}
	return c.User, c.Revision, true
}
