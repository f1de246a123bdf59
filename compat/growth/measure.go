package main

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/tenure-lease/tenure/internal/load"
)

// leaseSeconds is longer than any measurement.
const leaseSeconds = 36_000

// measureKeys puts more and more keys with values of 16 bytes, which are then put to at random.
func measureKeys(ctx context.Context, o options, sizes []int, tell func(point)) error {
	c, l, err := start(ctx, o, 3)
	if err != nil {
		return err
	}
	defer c.stop()
	l.Bytes = 16
	have := 0
	for _, n := range sizes {
		if err := fill(ctx, l, have, n); err != nil {
			return err
		}
		have, l.Keys = n, n
		tell(point{Size: n, Line: "memory of a member", Bytes: c.memory()})
		if err := costs(ctx, l, n, tell, "put", "get-leader"); err != nil {
			return err
		}
	}
	return nil
}

// fill puts keys from one number up to another, many in a transaction.
func fill(ctx context.Context, l *load.Load, from, to int) error {
	const together = 100
	return inParallel(ctx, l, (to-from+together-1)/together, func(c *clientv3.Client, i int) error {
		var ops []clientv3.Op
		for k := from + i*together; k < min(to, from+(i+1)*together); k++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%08d", l.Prefix, k), "0123456789abcdef"))
		}
		_, err := c.Txn(ctx).Then(ops...).Commit()
		return err
	})
}

// inParallel does steps by some clients of the leader.
func inParallel(ctx context.Context, l *load.Load, steps int, do func(c *clientv3.Client, i int) error) error {
	const workers = 16
	var all errgroup.Group
	for w := range workers {
		c, err := l.Connect(l.Leader())
		if err != nil {
			return err
		}
		all.Go(func() error {
			defer c.Close()
			for i := w; i < steps && ctx.Err() == nil; i += workers {
				if err := do(c, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return all.Wait()
}

// measureLeases grants more and more leases, which stay.
func measureLeases(ctx context.Context, o options, sizes []int, tell func(point)) error {
	c, l, err := start(ctx, o, 3)
	if err != nil {
		return err
	}
	defer c.stop()
	have := 0
	for _, n := range sizes {
		if err := inParallel(ctx, l, n-have, func(c *clientv3.Client, _ int) error {
			_, err := c.Grant(ctx, leaseSeconds)
			return err
		}); err != nil {
			return err
		}
		have = n
		tell(point{Size: n, Line: "memory of a member", Bytes: c.memory()})
		if err := costs(ctx, l, n, tell, "grant", "keepalive-leader", "put"); err != nil {
			return err
		}
	}
	return nil
}

// measureWatchers has one key watched by more and more watchers on 64 connections.
func measureWatchers(ctx context.Context, o options, sizes []int, tell func(point)) error {
	c, l, err := start(ctx, o, 3)
	if err != nil {
		return err
	}
	defer c.stop()
	for _, n := range sizes {
		if err := watched(ctx, c, l, n, tell); err != nil {
			return err
		}
	}
	return nil
}

// measureMembers has clusters of more and more members.
func measureMembers(ctx context.Context, o options, sizes []int, tell func(point)) error {
	for _, n := range sizes {
		c, l, err := start(ctx, o, n)
		if err != nil {
			return err
		}
		err = costs(ctx, l, n, tell, "put", "get-leader", "grant")
		c.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// measureBytes puts and gets larger and larger values, of few keys.
func measureBytes(ctx context.Context, o options, sizes []int, tell func(point)) error {
	for _, n := range sizes {
		c, l, err := start(ctx, o, 3)
		if err != nil {
			return err
		}
		l.Bytes, l.Keys, l.Clients = n, 100, usualClients/4
		err = costs(ctx, l, n, tell, "put", "get-leader")
		c.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// measureClients has more and more clients.
func measureClients(ctx context.Context, o options, sizes []int, tell func(point)) error {
	c, l, err := start(ctx, o, 3)
	if err != nil {
		return err
	}
	defer c.stop()
	for _, n := range sizes {
		l.Clients = n
		if err := costs(ctx, l, n, tell, "put", "get-leader", "keepalive-leader"); err != nil {
			return err
		}
	}
	return nil
}
