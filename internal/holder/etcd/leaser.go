package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// callTimeout bounds one request, so that a lost request is sent again.
const callTimeout = 5 * time.Second

// Config says where the servers are.
type Config struct {
	// Endpoints are the members' client addresses, host:port. One suffices; with
	// more, any may fail.
	Endpoints []string
	// TLS is nil for plain text.
	TLS *tls.Config
	// Username and Password are for a server with users. Both are empty for nobody, or for the user of
	// a certificate.
	Username, Password string
	// Clock measures leases. Default clock.System.
	Clock clock.Clock
}

// Leaser is a tenure.Leaser over an etcd client. It is a tenure.Awaiter, a
// tenure.Lister and a tenure.Recorder as well.
type Leaser struct {
	client *clientv3.Client
	owned  bool // the client is closed with us
	clock  clock.Clock
	clocks holder.Clocks
	calls  *holder.Calls // and revokes
	close  sync.Once
	closed error

	mu     sync.Mutex
	leases map[*lease]struct{} // not yet revoked
}

var (
	_ tenure.Leaser   = (*Leaser)(nil)
	_ tenure.Awaiter  = (*Leaser)(nil)
	_ tenure.Lister   = (*Leaser)(nil)
	_ tenure.Recorder = (*Leaser)(nil)
)

// Open connects and makes sure that a server answers, for which it waits until ctx
// is done, but no longer than five seconds.
func Open(ctx context.Context, cfg Config) (*Leaser, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("etcd client for %s: %w", strings.Join(cfg.Endpoints, ","), err)
	}
	var client *clientv3.Client
	err := reach(ctx, cfg, func(ctx context.Context) (err error) {
		client, err = connect(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	l := New(client, cfg.Clock)
	l.owned = true
	return l, nil
}

// New makes a Leaser over a client that remains the caller's to close, after
// the Leaser. c may be nil for clock.System.
func New(client *clientv3.Client, c clock.Clock) *Leaser {
	if c == nil {
		c = clock.System
	}
	return &Leaser{
		client: client, clock: c, clocks: holder.Clocks{Mono: c},
		calls: holder.NewCalls(context.Background(), nil), leases: map[*lease]struct{}{},
	}
}

// Close implements tenure.Leaser. It waits for the releases to be confirmed, but
// no longer than five seconds.
func (l *Leaser) Close() error {
	l.close.Do(func() {
		l.calls.Close()
		l.mu.Lock()
		all := slices.Collect(maps.Keys(l.leases))
		l.mu.Unlock()
		_ = holder.ReleaseAll(all, callTimeout, false) // a lease that is not revoked ends by itself
		if l.owned {
			l.closed = l.client.Close()
		}
	})
	return l.closed
}

func (l *Leaser) add(x *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[x] = struct{}{}
}

func (l *Leaser) drop(x *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, x)
}
