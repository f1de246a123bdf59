package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tenure-lease/tenure/internal/load"
)

// watched measures what an event to so many watchers costs, a watcher.
func watched(ctx context.Context, c *cluster, l *load.Load, n int, tell func(point)) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	key, puts := l.Prefix+"watched", max(3, min(200, 200_000/n))
	var clients []*clientv3.Client
	for i := range min(n, usualClients) {
		client, err := l.Connect(i % c.Size())
		if err != nil {
			return err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	var watchers errgroup.Group
	for i := range n {
		// One stream for each client: a context of its own would have each watcher open one.
		events := clients[i%len(clients)].Watch(ctx, key, clientv3.WithCreatedNotify())
		if _, ok := <-events; !ok {
			return fmt.Errorf("watcher %d is not made", i)
		}
		watchers.Go(func() error {
			seen := 0
			for r := range events {
				if seen += len(r.Events); seen >= puts {
					return r.Err()
				}
			}
			return fmt.Errorf("%d events of %d arrived", seen, puts)
		})
	}
	writer, err := l.Connect(l.Leader())
	if err != nil {
		return err
	}
	defer writer.Close()
	before := c.CPU(ctx)
	for i := range puts {
		if _, err := writer.Put(ctx, key, fmt.Sprint(i)); err != nil {
			return err
		}
	}
	defer time.AfterFunc(time.Minute, end).Stop()
	if err := watchers.Wait(); err != nil {
		return err
	}
	spent := c.CPU(ctx) - before
	tell(point{Size: n, Line: "event, a watcher", Micros: float64(spent.Nanoseconds()) / 1000 / float64(puts) / float64(n)})
	tell(point{Size: n, Line: "memory of a member", Bytes: c.memory()})
	return nil
}
