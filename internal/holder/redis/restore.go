package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

// Restore makes a server count again that has lost writes, or an empty one that takes the place of
// a server that is gone for good. Addr is one of cfg.Addrs, and the others are those of its set.
// More than half of the set has to be in order besides it. Leases go on meanwhile. Restore takes
// two terms and a little more; waits is told how long, before.
//
// Of the single server of its set the content is lost: all its leases end. The tokens go on
// growing as the wall clock does.
func Restore(ctx context.Context, cfg Config, addr string, waits func(time.Duration)) error {
	if err := CheckAddrs(cfg.Addrs); err != nil {
		return err
	}
	if !slices.Contains(cfg.Addrs, addr) {
		return fmt.Errorf("redis %s: the server is none of the set %v: name them all", addr, cfg.Addrs)
	}
	m := meet(ctx, cfg, addr)
	defer m.close()
	h, err := m.header()
	if err != nil {
		return fmt.Errorf("redis %s: %w", addr, err)
	}
	if waits != nil {
		waits(redis.RestoreTakes(h))
	}
	return redis.Restore(ctx, cfg.options(addr), h, m.stores...)
}

// meeting is what the servers of a set say of themselves, when one of them is to be restored.
type meeting struct {
	of     int
	stores []*redis.Store // of the others that are in order
	own    register.Header
	ownErr error
	others []found // those that are not in order
}

type found struct {
	addr   string
	header register.Header // zero if the server has none
	err    error
}

func meet(ctx context.Context, cfg Config, addr string) *meeting {
	m := &meeting{of: len(cfg.Addrs)}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, at := range cfg.Addrs {
		asking.Go(func() {
			if at == addr {
				m.own, m.ownErr = redis.Find(ctx, cfg.options(at))
				return
			}
			s, err := redis.Open(ctx, cfg.options(at))
			f := found{addr: at, err: err}
			if errors.Is(err, redis.ErrStale) {
				f.header, _ = redis.Find(ctx, cfg.options(at))
			}
			mu.Lock()
			defer mu.Unlock()
			if s != nil {
				m.stores = append(m.stores, s)
			} else {
				m.others = append(m.others, f)
			}
		})
	}
	asking.Wait()
	return m
}

func (m *meeting) close() {
	for _, s := range m.stores {
		s.Close()
	}
}

// header is that of the store to restore. An empty server gets a place in the set that no other
// has. A server that does not answer may have that place, and two servers must never share one.
func (m *meeting) header() (register.Header, error) {
	switch {
	case m.own != (register.Header{}):
		return m.own, nil // of a server that is in order, redis.Restore says so
	case !errors.Is(m.ownErr, register.ErrForeign) && !errors.Is(m.ownErr, redis.ErrStale):
		return register.Header{}, m.ownErr
	case m.of == 1:
		return register.Header{}, errors.New("the server is empty, and nothing says how long its leases last: stop the processes that use it, wait for that long, and make a new store by tenure lease init")
	case len(m.stores) == 0:
		return register.Header{}, fmt.Errorf("no other server of the set is in order: %w", m.others[0].err)
	}
	h := m.stores[0].Header()
	if h.Of != m.of {
		return register.Header{}, fmt.Errorf("the set has %d servers, and %d are given: give them all, in any order", h.Of, m.of)
	}
	taken := make([]bool, m.of)
	for _, s := range m.stores {
		taken[s.Header().Index] = true
	}
	for _, o := range m.others {
		switch {
		case o.header.Set == h.Set:
			taken[o.header.Index] = true
		case o.header.Of > 0:
			return register.Header{}, fmt.Errorf("%s is one of another set: name only those of one set", o.addr)
		case !errors.Is(o.err, register.ErrForeign): // an empty server has no place
			return register.Header{}, fmt.Errorf("the server is empty, and its place in the set may be that of %s, which does not answer: have it answer first, or put an empty server in its place: %w", o.addr, o.err)
		}
	}
	if h.Index = slices.Index(taken, false); h.Index < 0 {
		return register.Header{}, fmt.Errorf("each of the %d places of the set has its server already: name only those of one set", m.of)
	}
	return h, nil
}
