package etcd

import (
	"context"
	"crypto/tls"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// Config says where the servers are.
type Config struct {
	// Endpoints are the members' client addresses, host:port. Required: one suffices, and of
	// several any may fail.
	Endpoints []string
	// TLS is nil for plain text.
	TLS *tls.Config
	// Username and Password are for a server with users. Both are empty for nobody, or for the user of
	// a certificate. The user needs the right to read and write all keys that begin with the
	// names of its claims.
	Username, Password string
}

func (c Config) internal() etcd.Config {
	return etcd.Config{Endpoints: c.Endpoints, TLS: c.TLS, Username: c.Username, Password: c.Password}
}

// Open connects, and makes sure that a server answers. It waits for an answer until ctx is done, but
// no longer than five seconds. The Leaser is a tenure.Awaiter and a tenure.Lister as well.
func Open(ctx context.Context, cfg Config) (tenure.Leaser, error) {
	l, err := etcd.Open(ctx, cfg.internal())
	if err != nil {
		return nil, err // not l: a nil *etcd.Leaser is no nil Leaser
	}
	return l, nil
}

// New makes a Leaser over a client that is connected already. The caller closes the client after the
// Leaser. The Leaser is a tenure.Awaiter and a tenure.Lister as well.
func New(client *clientv3.Client) tenure.Leaser { return etcd.New(client, nil) }
