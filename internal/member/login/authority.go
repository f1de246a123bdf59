package login

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/auth"
)

// Backend is the member that keeps the users.
type Backend interface {
	// Users are those in the published state, nil while there is none.
	Users() *auth.State
	// Barrier returns when the published state includes all that was acknowledged before.
	Barrier(ctx context.Context) error
	// Propose replicates a request.
	Propose(ctx context.Context, request proto.Message) (proto.Message, error)
}

// Config is what an Authority is made from.
type Config struct {
	// Tokens is etcd's --auth-token: simple, or jwt with its options. Default simple.
	Tokens string
	// TTL is how long a simple token lasts that is not used. Default 300 s.
	TTL time.Duration
	// Cost is that of bcrypt for new passwords, from 4 to 31. Default 10.
	Cost int
}

// An Authority lets users log in, and recognises them.
type Authority struct {
	backend   Backend
	passwords *Passwords
	simple    *Simple
	signed    *signed // nil: tokens are simple
}

// Check returns the error with which New refuses c, if it does.
func (c Config) Check() error {
	_, err := New(nil, c)
	return err
}

// New returns an Authority. Its tokens have to be added: see Assigned.
func New(b Backend, c Config) (*Authority, error) {
	if c.Tokens == "" {
		c.Tokens = "simple"
	}
	if c.TTL == 0 {
		c.TTL = 300 * time.Second
	}
	if c.Cost == 0 {
		c.Cost = bcrypt.DefaultCost
	}
	if c.TTL < 0 || c.Cost < bcrypt.MinCost || c.Cost > bcrypt.MaxCost {
		return nil, fmt.Errorf("login: a TTL of %v and a cost of %d: want a TTL above 0, and a cost from %d to %d", c.TTL, c.Cost, bcrypt.MinCost, bcrypt.MaxCost)
	}
	o, err := parseOptions(c.Tokens)
	if err != nil {
		return nil, err
	}
	a := &Authority{backend: b, simple: newSimple(c.TTL)}
	if o != nil {
		if a.signed, err = newSigned(o); err != nil {
			return nil, err
		}
	}
	a.passwords = newPasswords(c.Cost)
	return a, nil
}

// Assigned takes a token that the log has: it is node.Config.Assigned.
func (a *Authority) Assigned(t replica.Token) { a.simple.Add(t) }

// Passwords computes hashes.
func (a *Authority) Passwords() *Passwords { return a.passwords }

// maxTries bounds how often a password is checked again because its user changed meanwhile.
const maxTries = 5

// Authenticate returns a token for a user who knows the password, and the revision of the
// response. Errors are auth.ErrNotEnabled, ErrFailed, ErrNoPassword and ErrOldRevision, those of
// ctx, and Propose's.
func (a *Authority) Authenticate(ctx context.Context, name, password string) (token string, err error) {
	for range maxTries {
		token, err = a.tryOnce(ctx, name, password)
		if !errors.Is(err, auth.ErrOldRevision) {
			break
		}
	}
	return token, err
}

func (a *Authority) tryOnce(ctx context.Context, name, password string) (string, error) {
	if err := a.backend.Barrier(ctx); err != nil {
		return "", err
	}
	hash, revision, err := a.backend.Users().Hash(name)
	if errors.Is(err, auth.ErrNotEnabled) {
		return "", err
	}
	if failed := a.passwords.check(ctx, hash, password); failed != nil {
		if err != nil && errors.Is(failed, auth.ErrFailed) {
			return "", err
		}
		return "", failed
	}
	if a.signed != nil {
		return a.signed.give(name, revision)
	}
	secret := newSecret()
	ctx = caller.With(ctx, auth.Caller{User: name, Revision: revision})
	resp, err := a.backend.Propose(ctx, &pb.InternalAuthenticateRequest{Name: name, SimpleToken: digest(secret)})
	if err != nil {
		return "", err
	}
	return secret + "." + resp.(*pb.AuthenticateResponse).Token, nil
}

// Identify returns the caller that shows a token. One that another member has given may not be
// known here yet, so it is looked for again in a newer state. The error is ErrInvalidToken, or
// Barrier's.
func (a *Authority) Identify(ctx context.Context, token string) (auth.Caller, error) {
	token = strings.TrimPrefix(token, "Bearer ")
	c, err := a.recognize(token)
	if err == nil || !a.plausible(token) {
		return c, err
	}
	if err := a.backend.Barrier(ctx); err != nil {
		return auth.Caller{}, err
	}
	return a.recognize(token)
}

// plausible reports whether a token may be one that is not known here yet: nobody has to wait
// for what cannot be one.
func (a *Authority) plausible(token string) bool {
	if a.signed != nil {
		_, _, ok := a.signed.read(token)
		return ok
	}
	_, ok := placeOf(token)
	return ok
}

func (a *Authority) recognize(token string) (auth.Caller, error) {
	users := a.backend.Users()
	if a.signed != nil {
		name, revision, ok := a.signed.read(token)
		if !ok {
			return auth.Caller{}, auth.ErrInvalidToken
		}
		c, err := users.Recognize(name, revision)
		if err == nil {
			c.Revision = revision // as in etcd, keys are not for tokens of before the latest change
		}
		return c, err
	}
	t, ok := a.simple.find(token)
	if !ok {
		return auth.Caller{}, auth.ErrInvalidToken
	}
	return users.Recognize(t.User, t.Revision)
}
