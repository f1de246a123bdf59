package redis

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// Config says where leases are kept. Only Addrs is required.
type Config struct {
	// Addrs are the servers of one set, in any order. Each is host:port, or host alone for port
	// 6379, or the path of a Unix socket.
	Addrs []string
	// Username and Password are needed if the servers ask for them. The user needs the keys that
	// begin with {Prefix}: and the commands EVAL, EVALSHA, SCRIPT LOAD, INFO, and the ordinary
	// commands on hashes, sorted sets and keys. CONFIG GET shows whether writes survive a restart.
	Username, Password string
	// DB is the number of the database on each server.
	DB int
	// TLS is nil for plain text.
	TLS *tls.Config
	// Prefix, in braces, begins all keys of the set. It has no braces itself. Default "tenure".
	Prefix string
	// State is a directory for observations that later processes on this machine can use. Default
	// $XDG_STATE_HOME/tenure, or ~/.local/state/tenure.
	State string
}

func (c Config) internal() redis.Config {
	return redis.Config{
		Addrs: c.Addrs, Username: c.Username, Password: c.Password, DB: c.DB, TLS: c.TLS, Prefix: c.Prefix, State: c.State,
	}
}

// Open opens the stores on the servers. A minority of the servers may be missing. The Leaser is a
// tenure.Awaiter and a tenure.Lister as well.
func Open(ctx context.Context, cfg Config) (tenure.Leaser, error) {
	l, err := redis.Open(ctx, cfg.internal())
	if err != nil {
		return nil, err // not l: a nil *redis.Leaser is no nil Leaser
	}
	return l, nil
}

// Spec is fixed when the stores of a set are made. A zero field is chosen by Init.
type Spec struct {
	// TTL is how long a lease lasts without a renewal: that of all leases. Default
	// tenure.DefaultTTL.
	TTL time.Duration
	// Delay is how long an access takes at most, in ordinary times. By default it is measured. A
	// slower server costs time, and never exclusion.
	Delay time.Duration
	// Drift is by how much clocks may differ in rate from true time, in parts per million. Default
	// 1,000.
	Drift int
}

// Init makes the stores of a new set, on servers that have none.
func Init(ctx context.Context, cfg Config, spec Spec) error {
	_, err := redis.Init(ctx, cfg.internal(), spec.internal())
	return err
}

func (s Spec) internal() storage.Spec {
	return storage.Spec{Term: s.TTL, Delay: s.Delay, Drift: s.Drift}
}

// Restore makes a server count again that has lost writes, or an empty one that takes the place of
// a server that is gone for good and must never come back. Addr is one of cfg.Addrs; more than half
// of the set has to be in order besides it. Leases go on meanwhile. Restore copies from the
// others what the server has lost. Before that it waits, for three times the TTL and a little
// more, until nobody can rely on what the server has forgotten. If ctx ends first, the server stays
// left out, and Restore can be called again.
func Restore(ctx context.Context, cfg Config, addr string) error {
	return redis.Restore(ctx, cfg.internal(), addr, nil)
}
