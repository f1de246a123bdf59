package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/load"
)

// grantMany grants n leases over the clients at once and returns their ids.
func grantMany(ctx context.Context, clients []*clientv3.Client, n int, ttl int64) ([]clientv3.LeaseID, error) {
	return inParallel(len(clients), n, func(worker, _ int) (clientv3.LeaseID, error) {
		lease, err := clients[worker].Grant(ctx, ttl)
		if err != nil {
			return 0, err
		}
		return lease.ID, nil
	})
}

// inParallel calls f for 0 to n-1 on some workers and returns what it gave, in
// order, or an error of it.
func inParallel[T any](workers, n int, f func(worker, i int) (T, error)) ([]T, error) {
	results := make([]T, n)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				results[i], errs[w] = f(w, i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func memory(ctx context.Context, b *bench) (load.Result, error) {
	clients, err := b.connect(b.clients)
	if err != nil {
		return load.Result{}, err
	}
	defer closeAll(clients)
	resident := func() (sum int64) {
		for _, m := range b.cluster.Members {
			sum += m.Memory()
		}
		return sum
	}
	// The memory that a server needs for its connections and its first requests is no
	// lease's.
	if _, err := grantMany(ctx, clients, 1000, 36_000); err != nil {
		return load.Result{}, err
	}
	before, n := resident(), max(int(100_000*b.leases), 100)
	if _, err := grantMany(ctx, clients, n, 36_000); err != nil {
		return load.Result{}, err
	}
	time.Sleep(2 * time.Second) // a collection or two
	return load.Result{Bytes: float64(resident()-before) / float64(n) / float64(len(b.cluster.Members))}, nil
}
