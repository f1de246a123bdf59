package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
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
	// State is where to remember what has to be remembered from process to process.
	// Default storage.StateDir().
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

// Leaser is a storage.Leaser that knows its servers.
type Leaser struct {
	*storage.Leaser
	addrs  []string // by store
	stores []*redis.Store
	absent []error // by store: why it is missing
}

var _ tenure.Leaser = (*Leaser)(nil)

// Open opens the stores on the servers, in any order. A minority of them may be missing.
func Open(ctx context.Context, cfg Config) (*Leaser, error) {
	if err := CheckAddrs(cfg.Addrs); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	if cfg.State == "" {
		cfg.State = storage.StateDir()
	}
	n := len(cfg.Addrs)
	found, errs := make([]*redis.Store, n), make([]error, n)
	var opening sync.WaitGroup
	for i, addr := range cfg.Addrs {
		opening.Go(func() { found[i], errs[i] = redis.Open(ctx, cfg.options(addr)) })
	}
	opening.Wait()
	l, err := join(cfg, found, errs)
	if err != nil {
		for _, s := range found {
			if s != nil {
				s.Close()
			}
		}
		return nil, err
	}
	return l, nil
}

// join makes a Leaser of the stores that were found.
func join(cfg Config, found []*redis.Store, errs []error) (*Leaser, error) {
	n := len(found)
	var stores []register.Store
	for i, s := range found {
		if s == nil {
			continue
		}
		if of := s.Header().Of; of != n {
			return nil, fmt.Errorf("%s is one of a set of %d, and %d servers are given: %w: give them all, in any order", cfg.Addrs[i], of, n, register.ErrMismatch)
		}
		stores = append(stores, s)
	}
	if len(stores) <= n/2 {
		err := errors.Join(errs...)
		if n > 1 {
			err = fmt.Errorf("%d of %d servers can be used, and it takes more than half:\n%w", len(stores), n, err)
		}
		return nil, err
	}
	set, err := register.NewSetBy(cfg.Clock.Now, stores)
	if err != nil {
		return nil, err
	}
	l := &Leaser{addrs: make([]string, n), stores: make([]*redis.Store, n), absent: make([]error, n)}
	for i, s := range found {
		if s != nil {
			l.addrs[s.Header().Index], l.stores[s.Header().Index] = cfg.Addrs[i], s
		}
	}
	for i, s := range found { // what is missing has the places that are left
		if s == nil {
			at := slices.Index(l.addrs, "")
			l.addrs[at], l.absent[at] = cfg.Addrs[i], errs[i]
		}
	}
	l.Leaser = storage.New(set, storage.Options{Clock: cfg.Clock, State: cfg.State})
	return l, nil
}

// CheckAddrs tells what is wrong with the servers of a set, without asking them.
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

// Health is how a store does.
type Health struct {
	storage.Health
	Addr    string
	Warning string // how the server can disappoint
}

// Health looks at a name on each of the servers. It waits for the answers until ctx is
// done.
func (l *Leaser) Health(ctx context.Context, name string) ([]Health, error) {
	looks, err := l.Leaser.Health(ctx, name)
	if err != nil {
		return nil, err
	}
	all := make([]Health, len(looks))
	for i, h := range looks {
		all[i] = Health{Health: h, Addr: l.addrs[i]}
		if l.absent[i] != nil {
			all[i].Err = l.absent[i]
		} else {
			all[i].Warning = l.stores[i].Warning()
		}
	}
	return all, nil
}

// samples is how often a server is asked to choose a δ that is adapted anyway.
const samples = 8

// Init makes the stores of a new set on servers that have none, and returns what they agree
// on. By default δ is twice what it took at most to connect and ask, which is more than a
// read and a write, and at least storage.LeastDelay.
func Init(ctx context.Context, cfg Config, spec storage.Spec) (h register.Header, err error) {
	if err := CheckAddrs(cfg.Addrs); err != nil {
		return h, err
	}
	most := storage.LeastDelay / 2
	for _, addr := range cfg.Addrs { // before any is made
		for range samples {
			began := time.Now()
			_, err := redis.Find(ctx, cfg.options(addr))
			most = max(most, time.Since(began))
			switch {
			case err == nil:
				return h, fmt.Errorf("redis %s: %w", addr, redis.ErrExists)
			case !errors.Is(err, register.ErrForeign):
				return h, err
			}
		}
	}
	if spec.Delay == 0 {
		spec.Delay = (2 * most).Round(time.Millisecond)
	}
	if h, err = spec.Header(len(cfg.Addrs)); err != nil {
		return h, err
	}
	for i, addr := range cfg.Addrs {
		h.Index = i
		if err := redis.Init(ctx, cfg.options(addr), h); err != nil {
			return h, err
		}
	}
	h.Index = 0
	return h, nil
}
