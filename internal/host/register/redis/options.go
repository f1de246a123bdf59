package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Options say where a store is.
type Options struct {
	// Addr is host:port, or host alone for port 6379, or the path of a Unix socket.
	Addr string
	// Username and Password are needed if the server asks for them. The user needs the keys that
	// begin with {Prefix}: and the commands EVAL, EVALSHA, SCRIPT LOAD, INFO, and the ordinary
	// commands on hashes, sorted sets and keys. CONFIG GET shows whether writes survive a restart.
	Username, Password string
	// DB is the number of the database.
	DB int
	// TLS, if not nil, is how to speak TLS.
	TLS *tls.Config
	// Dial connects to the server, in place of a net.Dialer. TLS is not spoken then, unless
	// Dial does. The context ends when connecting takes too long.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Prefix, in braces, begins the store's keys. Default "tenure". Stores of other sets may be on
	// the same server under other prefixes.
	Prefix string
	// Obsolete reports whether a store may forget a writer's record at a register with the value v:
	// disklease.Obsolete for leases. If nil, nothing is ever forgotten.
	Obsolete func(v machine.Value, writer machine.ID) bool

	patience time.Duration // in place of the header's, in tests that are not about it
}

func (o *Options) prefix() string {
	if o.Prefix == "" {
		return "tenure"
	}
	return o.Prefix
}

func (o *Options) validate() error {
	if o.Addr == "" {
		return fmt.Errorf("redis: no address is given")
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return fmt.Errorf("redis %s: the prefix %q must have no braces", o.Addr, o.Prefix)
	}
	return nil
}

// storeKey is the hash with the header, the floor and the like.
func (o *Options) storeKey() string { return "{" + o.prefix() + "}:store" }

// keys are the KEYS of all scripts. The braces put all into one slot of a cluster.
func (o *Options) keys(name string) []string {
	return []string{o.storeKey(), "{" + o.prefix() + "}:lease:" + name, "{" + o.prefix() + "}:names"}
}

// client makes a client without a will of its own: it retries nothing, and waits for
// the server no longer than patience. greet, if not nil, looks at each new connection.
func (o *Options) client(patience time.Duration, greet func(context.Context, *goredis.Conn) error) *goredis.Client {
	network, addr := "tcp", o.Addr
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	} else if _, _, err := net.SplitHostPort(addr); err != nil {
		addr = net.JoinHostPort(strings.Trim(addr, "[]"), "6379")
	}
	return goredis.NewClient(&goredis.Options{
		Network: network, Addr: addr, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, Dialer: o.Dial,
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},

		MaxRetries: -1, DialerRetries: 1,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		ContextTimeoutEnabled: true,
		// Do takes one, Names another, and one is to spare.
		PoolSize: 3, PipelinePoolSize: -1,
		OnConnect: greet,
	})
}

// opening is for how long Open, Init, Find and Restore wait for a single answer.
const opening = 5 * time.Second
