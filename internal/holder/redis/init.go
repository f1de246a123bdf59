package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

// samples is how often a server is asked to choose a δ that is adapted anyway.
const samples = 8

// Init makes the stores of a new set on servers that have none, and returns the header that they
// share. By default δ is twice the longest time that it took to connect and ask, and at least
// storage.LeastDelay. To connect and ask takes longer than a read and a write.
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
