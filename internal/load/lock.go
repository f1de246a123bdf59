package load

import (
	"context"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"
)

const contenders = 16

// lock hands one Mutex from contender to contender.
func lock(ctx context.Context, l *Load) (Result, error) {
	clients, closeAll, err := l.connect(contenders, l.members())
	if err != nil {
		return Result{}, err
	}
	defer closeAll()
	mutexes := make([]*concurrency.Mutex, contenders)
	for i, c := range clients {
		session, err := concurrency.NewSession(c)
		if err != nil {
			return Result{}, err
		}
		defer session.Close()
		mutexes[i] = concurrency.NewMutex(session, l.Prefix+"lock")
	}
	var unlocked atomic.Int64    // when the last holder began to unlock
	var handoffs []time.Duration // written by the holder only
	start := time.Now()
	r, err := l.Work(ctx, contenders, func(ctx context.Context, worker int) error {
		if err := mutexes[worker].Lock(ctx); err != nil {
			return err
		}
		if since := unlocked.Load(); since != 0 {
			handoffs = append(handoffs, time.Since(start)-time.Duration(since))
		}
		unlocked.Store(int64(time.Since(start)))
		return mutexes[worker].Unlock(ctx)
	})
	if err != nil {
		return Result{}, err
	}
	// Rate and CPU are of the measured part; hand-overs are those of all parts.
	h := Summary(handoffs, time.Second, 0)
	r.P50, r.P99 = h.P50, h.P99
	return r, nil
}
