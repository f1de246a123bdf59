package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watch puts now and then, and has every client see it.
func watch(ctx context.Context, b *bench) (result, error) {
	clients, err := b.connect(b.clients)
	if err != nil {
		return result{}, err
	}
	defer closeAll(clients)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	const every = 2 * time.Millisecond
	puts := max(int(b.duration/every), 10)
	begin := time.Now()
	var (
		mu        sync.Mutex
		latencies []time.Duration
		seen      sync.WaitGroup
		ready     sync.WaitGroup
	)
	for _, cli := range clients {
		ready.Add(1)
		seen.Go(func() {
			events := cli.Watch(clientv3.WithRequireLeader(ctx), "bench-watch", clientv3.WithCreatedNotify())
			var mine []time.Duration
			for r := range events {
				now := time.Since(begin)
				if r.Created {
					ready.Done()
				}
				for _, e := range r.Events {
					ns, _ := strconv.ParseInt(string(e.Kv.Value), 10, 64)
					mine = append(mine, now-time.Duration(ns))
				}
				if len(mine) >= puts {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, mine...)
		})
	}
	ready.Wait()
	writer, err := b.cluster.Client()
	if err != nil {
		return result{}, err
	}
	defer writer.Close()
	cpu, start := b.cpu(), time.Now()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for range puts {
		<-ticker.C
		if _, err := writer.Put(ctx, "bench-watch", strconv.FormatInt(int64(time.Since(begin)), 10)); err != nil {
			return result{}, err
		}
	}
	waiting := time.AfterFunc(10*time.Second, cancel)
	defer waiting.Stop()
	seen.Wait()
	if want := puts * b.clients; len(latencies) != want {
		return result{}, fmt.Errorf("%d events of %d arrived", len(latencies), want)
	}
	return summary(latencies, time.Since(start), b.cpu()-cpu), nil
}
