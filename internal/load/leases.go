package load

import (
	"context"
	"fmt"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// grant measures grants, and gives them back afterwards.
func grant(ctx context.Context, l *Load) (Result, error) {
	clients, closeAll, err := l.connect(l.Clients, l.members())
	if err != nil {
		return Result{}, err
	}
	defer closeAll()
	granted := make([][]clientv3.LeaseID, l.Clients)
	r, err := l.Work(ctx, l.Clients, func(ctx context.Context, worker int) error {
		lease, err := clients[worker].Grant(ctx, leaseSeconds)
		if err == nil {
			granted[worker] = append(granted[worker], lease.ID)
		}
		return err
	})
	if err != nil {
		return Result{}, err
	}
	var all errgroup.Group
	for w, ids := range granted {
		all.Go(func() error {
			for _, id := range ids {
				if _, err := clients[w].Revoke(ctx, id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return r, all.Wait()
}

func cycle(ctx context.Context, l *Load) (Result, error) {
	value := l.value()
	return l.Each(ctx, l.members(), func(ctx context.Context, c *clientv3.Client) error {
		lease, err := c.Grant(ctx, leaseSeconds)
		if err != nil {
			return err
		}
		if _, err := c.Put(ctx, l.key(rand.IntN(l.keys())), value, clientv3.WithLease(lease.ID)); err != nil {
			return err
		}
		_, err = c.Revoke(ctx, lease.ID)
		return err
	})
}

// keepAlive has each client renew its own lease on a stream, and wait for each answer.
func (l *Load) keepAlive(ctx context.Context, members []int) (Result, error) {
	clients, closeAll, err := l.connect(l.Clients, members)
	if err != nil {
		return Result{}, err
	}
	defer closeAll()
	streaming, end := context.WithCancel(ctx)
	defer end()
	var streams []pb.Lease_LeaseKeepAliveClient
	var ids []clientv3.LeaseID
	for _, c := range clients {
		lease, err := c.Grant(ctx, leaseSeconds)
		if err != nil {
			return Result{}, err
		}
		stream, err := pb.NewLeaseClient(c.ActiveConnection()).LeaseKeepAlive(streaming)
		if err != nil {
			return Result{}, err
		}
		ids, streams = append(ids, lease.ID), append(streams, stream)
	}
	r, err := l.Work(ctx, l.Clients, func(_ context.Context, worker int) error { return Renew(streams[worker], ids[worker]) })
	if err != nil {
		return Result{}, err
	}
	for i, id := range ids {
		if _, err := clients[i].Revoke(ctx, id); err != nil {
			return Result{}, err
		}
	}
	return r, nil
}

// Renew renews a lease on a stream and waits for the answer.
func Renew(stream pb.Lease_LeaseKeepAliveClient, id clientv3.LeaseID) error {
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err == nil && answer.TTL <= 0 {
		err = fmt.Errorf("lease %x is gone", int64(id))
	}
	return err
}

func keepAliveLeader(ctx context.Context, l *Load) (Result, error) {
	return l.keepAlive(ctx, []int{l.Leader()})
}

func keepAliveFollower(ctx context.Context, l *Load) (Result, error) {
	return l.keepAlive(ctx, l.followers())
}
