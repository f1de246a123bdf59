package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

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
	client, err := clientv3.New(cfg.client())
	if err != nil {
		return nil, fmt.Errorf("etcd client for %s: %w", strings.Join(cfg.Endpoints, ","), err)
	}
	l := New(client, cfg.Clock)
	l.owned = true
	if err := l.reach(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// client is the configuration of the client.
func (cfg Config) client() clientv3.Config {
	return clientv3.Config{
		Endpoints: cfg.Endpoints,
		TLS:       cfg.TLS,
		Logger:    zap.NewNop(),
		// A connection that goes nowhere is replaced after eight seconds; etcd
		// does not allow to ask more often than each five.
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
	}
}

// reach waits until a server answers. It gives up at once when nothing listens at
// any of the addresses, for then nothing is about to answer.
func (l *Leaser) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	where := strings.Join(l.client.Endpoints(), ",")
	for {
		try, cancel := context.WithTimeout(ctx, callTimeout/5)
		_, err := l.client.Get(try, "\x00", clientv3.WithCountOnly())
		cancel()
		if err == nil {
			return nil
		}
		refused := dial(ctx, l.client.Endpoints())
		switch {
		case ended(ctx): // then dial fails, too, even at a server that listens
			return fmt.Errorf("no answer from %s (%w): check that a majority of the servers is up, and whether they want TLS", where, err)
		case refused != nil:
			return fmt.Errorf("cannot reach %s: %w; check the address, and that the server runs", where, refused)
		case !passing(err):
			return fmt.Errorf("%s answers with an error: %w", where, err)
		}
	}
}

// ended reports whether the context has ended, or is about to: where a deadline has passed, requests and
// dials fail by it, perhaps before the context's own timer has run.
func ended(ctx context.Context) bool {
	end, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(end)
}

// dial returns nil if any of the addresses takes connections.
func dial(ctx context.Context, addresses []string) error {
	var all error
	for _, a := range addresses {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", a)
		if err == nil {
			conn.Close()
			return nil
		}
		all = errors.Join(all, err)
	}
	return all
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
