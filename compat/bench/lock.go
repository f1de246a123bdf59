package main

import (
	"context"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"
)

const contenders = 16

// lock hands one Mutex from contender to contender.
func lock(ctx context.Context, b *bench) (result, error) {
	clients, err := b.connect(contenders)
	if err != nil {
		return result{}, err
	}
	defer closeAll(clients)
	mutexes := make([]*concurrency.Mutex, contenders)
	for i, cli := range clients {
		session, err := concurrency.NewSession(cli)
		if err != nil {
			return result{}, err
		}
		defer session.Close()
		mutexes[i] = concurrency.NewMutex(session, "bench-lock")
	}
	var unlocked atomic.Int64    // when the last holder began to unlock
	var handoffs []time.Duration // written by the holder only
	start := time.Now()
	r, err := b.load(ctx, contenders, func(ctx context.Context, worker, _ int) error {
		if err := mutexes[worker].Lock(ctx); err != nil {
			return err
		}
		if since := unlocked.Load(); since != 0 {
			handoffs = append(handoffs, time.Duration(time.Since(start).Nanoseconds()-since))
		}
		unlocked.Store(time.Since(start).Nanoseconds())
		return mutexes[worker].Unlock(ctx)
	})
	if err != nil {
		return r, err
	}
	// Rate and CPU are of the measured part; hand-offs are those of all parts.
	h := summary(handoffs, 1, 0)
	r.P50, r.P99 = h.P50, h.P99
	return r, nil
}
