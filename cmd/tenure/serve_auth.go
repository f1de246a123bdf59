package main

import (
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/crypto/bcrypt"

	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// authOptions are etcd's flags of users.
type authOptions struct {
	token      string
	ttlSeconds uint32
	cost       int
}

func (a *authOptions) register(f *pflag.FlagSet) {
	f.StringVar(&a.token, "auth-token", "simple", "`kind` of the tokens of users that log in, the same on each member: simple, or jwt,sign-method=METHOD,priv-key=FILE,pub-key=FILE,ttl=DURATION")
	f.Uint32Var(&a.ttlSeconds, "auth-token-ttl", 300, "`seconds` after which a simple token ends that is not used")
	f.IntVar(&a.cost, "bcrypt-cost", bcrypt.DefaultCost, "`cost` of hashes of new passwords, from 4 to 31")
}

// setIn sets these in the configuration of a member. With --client-cert-auth the name in a client's
// certificate is its user.
func (a *authOptions) setIn(cfg *server.Config, certificates bool) {
	cfg.Logins = login.Config{Tokens: a.token, TTL: time.Duration(a.ttlSeconds) * time.Second, Cost: a.cost}
	cfg.API.CertificateUsers = certificates
}
