package redis

import (
	"context"
	"sync"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

// Leaser is a storage.Leaser that knows its servers.
type Leaser struct {
	*storage.Leaser
	places []storage.Place[*redis.Store] // by store
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
	found := make([]storage.Place[*redis.Store], len(cfg.Addrs))
	var opening sync.WaitGroup
	for i, addr := range cfg.Addrs {
		opening.Go(func() {
			s, err := redis.Open(ctx, cfg.options(addr))
			found[i] = storage.Place[*redis.Store]{Name: addr, Store: s, Err: err}
		})
	}
	opening.Wait()
	l, places, err := storage.Join(found, "servers", "servers", storage.Options{Clock: cfg.Clock, State: cfg.State})
	if err != nil {
		for _, x := range found {
			if x.Store != nil {
				x.Store.Close()
			}
		}
		return nil, err
	}
	return &Leaser{Leaser: l, places: places}, nil
}
