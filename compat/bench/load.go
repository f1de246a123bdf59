package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// load calls op from n workers, each as soon as its last call ended, for a
// warm-up and then for the measured time. An error ends it.
func (b *bench) load(ctx context.Context, n int, op func(ctx context.Context, worker, i int) error) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now().Add(b.duration / 5)
	end := begin.Add(b.duration)
	latencies := make([][]time.Duration, n)
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			for i := 0; ; i++ {
				start := time.Now()
				if start.After(end) || ctx.Err() != nil {
					return
				}
				if err := op(ctx, w, i); err != nil {
					cancel(err)
					return
				}
				if start.After(begin) {
					latencies[w] = append(latencies[w], time.Since(start))
				}
			}
		})
	}
	time.Sleep(time.Until(begin))
	cpu := b.cpu()
	wg.Wait()
	cpu = b.cpu() - cpu
	elapsed := time.Since(begin)
	if err := context.Cause(ctx); err != nil {
		return result{}, err
	}
	return summary(slices.Concat(latencies...), elapsed, cpu), nil
}

// summary is a result from what was measured.
func summary(latencies []time.Duration, elapsed, cpu time.Duration) result {
	if len(latencies) == 0 {
		return result{}
	}
	slices.Sort(latencies)
	return result{
		Rate: float64(len(latencies)) / elapsed.Seconds(),
		P50:  quantile(latencies, 0.50),
		P99:  quantile(latencies, 0.99),
		CPU:  cpu / time.Duration(len(latencies)),
	}
}

// quantile of a sorted, non-empty list.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
