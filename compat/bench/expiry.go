package main

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/load"
)

func expiry10k(ctx context.Context, b *bench) (load.Result, error) {
	return expiry(ctx, b, max(int(10_000*b.leases), 100), 15)
}

func expiry100k(ctx context.Context, b *bench) (load.Result, error) {
	return expiry(ctx, b, max(int(100_000*b.leases), 100), 90)
}

// expiry measures how late n leases end that were renewed at about the same
// time. The TTL, in seconds, must be longer than the grants take.
func expiry(ctx context.Context, b *bench, n int, ttl int64) (load.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clients, err := b.connect(b.clients)
	if err != nil {
		return load.Result{}, err
	}
	defer closeAll(clients)
	if b.leases < 1 {
		ttl = max(int64(float64(ttl)*b.leases), 3)
	}
	leases, err := grantMany(ctx, clients, n, ttl)
	if err != nil {
		return load.Result{}, err
	}
	index := make(map[clientv3.LeaseID]int, n)
	for i, id := range leases {
		index[id] = i
	}
	const together = 100 // keys put by one transaction
	if _, err := inParallel(b.clients, (n+together-1)/together, func(worker, i int) (struct{}, error) {
		var ops []clientv3.Op
		for _, id := range leases[i*together : min(n, (i+1)*together)] {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("expiry/%016x", int64(id)), "", clientv3.WithLease(id)))
		}
		_, err := clients[worker].Txn(ctx).Then(ops...).Commit()
		return struct{}{}, err
	}); err != nil {
		return load.Result{}, err
	}
	events := clients[0].Watch(clientv3.WithRequireLeader(ctx), "expiry/", clientv3.WithPrefix(), clientv3.WithFilterPut())

	// All are renewed by the leader's own streams, as fast as it goes.
	streams := make([]pb.Lease_LeaseKeepAliveClient, 16)
	for i := range streams {
		cli, err := b.cluster.Client(b.leader)
		if err != nil {
			return load.Result{}, err
		}
		defer cli.Close()
		if streams[i], err = pb.NewLeaseClient(cli.ActiveConnection()).LeaseKeepAlive(ctx); err != nil {
			return load.Result{}, err
		}
	}
	due, err := renewAll(streams, leases, time.Duration(ttl)*time.Second)
	if err != nil {
		return load.Result{}, fmt.Errorf("renew before the leases expire: %w", err)
	}

	late := make([]time.Duration, 0, n)
	cpu, first := b.cpu(), time.Now().Add(24*time.Hour)
	for _, d := range due {
		if d.Before(first) {
			first = d
		}
	}
	timeout := time.After(time.Until(first) + time.Duration(n)*time.Millisecond*3 + time.Minute)
	for len(late) < n {
		select {
		case r, ok := <-events:
			now := time.Now()
			if !ok || r.Err() != nil {
				return load.Result{}, fmt.Errorf("the watch ended: %v", r.Err())
			}
			for _, e := range r.Events {
				var id int64
				if _, err := fmt.Sscanf(string(e.Kv.Key), "expiry/%x", &id); err != nil {
					return load.Result{}, err
				}
				late = append(late, now.Sub(due[index[clientv3.LeaseID(id)]]))
			}
		case <-timeout:
			return load.Result{}, fmt.Errorf("%d leases of %d expired", len(late), n)
		}
	}
	return load.Summary(late, max(time.Since(first), 1), b.cpu()-cpu), nil
}

// renewAll renews every lease, with many requests under way on each stream, and
// returns when each is due: its TTL after its answer arrived.
func renewAll(streams []pb.Lease_LeaseKeepAliveClient, leases []clientv3.LeaseID, ttl time.Duration) ([]time.Time, error) {
	due := make([]time.Time, len(leases))
	_, err := inParallel(len(streams), len(streams), func(worker, _ int) (struct{}, error) {
		stream := streams[worker]
		sent := make(chan error, 1)
		go func() {
			for i := worker; i < len(leases); i += len(streams) {
				if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(leases[i])}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for i := worker; i < len(leases); i += len(streams) {
			answer, err := stream.Recv()
			if err != nil {
				return struct{}{}, err
			}
			if answer.ID != int64(leases[i]) || answer.TTL <= 0 {
				return struct{}{}, fmt.Errorf("answer %v to a renewal of %x", answer, leases[i])
			}
			due[i] = time.Now().Add(ttl)
		}
		return struct{}{}, <-sent
	})
	return due, err
}
