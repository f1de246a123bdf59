package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

// Config says where leases are kept. Only Addrs is required.
type Config struct {
	// Addrs are the servers of one set, host:port each.
	Addrs []string
	// Username, Password, DB, TLS, Dial and Prefix are those of all servers; see
	// internal/host/register/redis.Options.
	Username, Password string
	DB                 int
	TLS                *tls.Config
	Dial               func(ctx context.Context, network, addr string) (net.Conn, error)
	Prefix             string
	// State is a directory for observations that later processes on this machine can use. Default
	// storage.StateDir().
	State string
	// Clock measures leases. Default clock.System.
	Clock clock.Clock
}

func (c Config) options(addr string) redis.Options {
	return redis.Options{
		Addr: addr, Username: c.Username, Password: c.Password, DB: c.DB, TLS: c.TLS, Dial: c.Dial, Prefix: c.Prefix,
		Obsolete: storage.Obsolete,
	}
}

// CheckAddrs returns an error if addresses cannot be those of a set. It does not ask the servers.
func CheckAddrs(addrs []string) error {
	if len(addrs) == 0 {
		return errors.New("no server is given: name one, or several of which a minority may fail")
	}
	for i, a := range addrs {
		if slices.Contains(addrs[:i], a) {
			return fmt.Errorf("server %q is given twice: one failure would take both away", a)
		}
	}
	return nil
}
