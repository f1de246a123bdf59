package load

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Work calls op from some workers, each as soon as its last call ended, for the warm-up and then for the
// time that is measured, in which each makes one call at least, however slow. An error ends it.
func (l *Load) Work(ctx context.Context, workers int, op func(ctx context.Context, worker int) error) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now().Add(l.Time / 5)
	end := begin.Add(l.Time)
	latencies := make([][]time.Duration, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for {
				start := time.Now()
				if start.After(end) && len(latencies[w]) > 0 || ctx.Err() != nil {
					return
				}
				if err := op(ctx, w); err != nil {
					cancel(err)
					return
				}
				if start.After(begin) {
					latencies[w] = append(latencies[w], time.Since(start))
				}
			}
		})
	}
	warm := time.NewTimer(time.Until(begin))
	defer warm.Stop()
	select {
	case <-warm.C:
	case <-ctx.Done():
	}
	cpu := l.CPU(ctx)
	wg.Wait()
	cpu = l.CPU(ctx) - cpu
	elapsed := time.Since(begin)
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	return Summary(slices.Concat(latencies...), elapsed, max(cpu, 0)), nil
}

// Each is Work by all clients, which are connected to some members in turn.
func (l *Load) Each(ctx context.Context, members []int, op func(context.Context, *clientv3.Client) error) (Result, error) {
	clients, closeAll, err := l.connect(l.Clients, members)
	if err != nil {
		return Result{}, err
	}
	defer closeAll()
	return l.Work(ctx, l.Clients, func(ctx context.Context, worker int) error { return op(ctx, clients[worker]) })
}

// Alone is the same load by one client.
func (l *Load) Alone() *Load {
	one := *l
	one.Clients = 1
	return &one
}
