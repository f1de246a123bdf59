package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

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
			err = fmt.Errorf("%d of %d servers can be used, and a set needs more than half:\n%w", len(stores), n, err)
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
	for i, s := range found { // missing stores get the places that are left
		if s == nil {
			at := slices.Index(l.addrs, "")
			l.addrs[at], l.absent[at] = cfg.Addrs[i], errs[i]
		}
	}
	l.Leaser = storage.New(set, storage.Options{Clock: cfg.Clock, State: cfg.State})
	return l, nil
}
