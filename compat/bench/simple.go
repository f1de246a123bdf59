package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var value = strings.Repeat("v", 256)

func key(i int) string { return fmt.Sprintf("bench/%08d", i) }

const keys = 10_000

// each runs op as load, every worker with its own client to the given members.
func (b *bench) each(ctx context.Context, members []int, op func(ctx context.Context, cli *clientv3.Client) error) (result, error) {
	clients, err := b.connect(b.clients, members...)
	if err != nil {
		return result{}, err
	}
	defer closeAll(clients)
	return b.load(ctx, b.clients, func(ctx context.Context, worker, _ int) error { return op(ctx, clients[worker]) })
}

func put(ctx context.Context, b *bench) (result, error) {
	return b.each(ctx, nil, func(ctx context.Context, cli *clientv3.Client) error {
		_, err := cli.Put(ctx, key(rand.IntN(keys)), value)
		return err
	})
}

func (b *bench) get(ctx context.Context, members []int, options ...clientv3.OpOption) (result, error) {
	cli, err := b.cluster.Client(b.leader)
	if err != nil {
		return result{}, err
	}
	defer cli.Close()
	const some = 100
	for i := range some {
		if _, err := cli.Put(ctx, key(i), value); err != nil {
			return result{}, err
		}
	}
	return b.each(ctx, members, func(ctx context.Context, cli *clientv3.Client) error {
		_, err := cli.Get(ctx, key(rand.IntN(some)), options...)
		return err
	})
}

func getLeader(ctx context.Context, b *bench) (result, error) { return b.get(ctx, []int{b.leader}) }

func getFollower(ctx context.Context, b *bench) (result, error) { return b.get(ctx, b.followers()) }

func getSerializable(ctx context.Context, b *bench) (result, error) {
	return b.get(ctx, nil, clientv3.WithSerializable())
}

func grant(ctx context.Context, b *bench) (result, error) {
	return b.each(ctx, nil, func(ctx context.Context, cli *clientv3.Client) error {
		_, err := cli.Grant(ctx, 3600)
		return err
	})
}

func cycle(ctx context.Context, b *bench) (result, error) {
	return b.each(ctx, nil, func(ctx context.Context, cli *clientv3.Client) error {
		lease, err := cli.Grant(ctx, 3600)
		if err != nil {
			return err
		}
		if _, err := cli.Put(ctx, key(rand.IntN(keys)), value, clientv3.WithLease(lease.ID)); err != nil {
			return err
		}
		_, err = cli.Revoke(ctx, lease.ID)
		return err
	})
}

func (b *bench) keepAlive(ctx context.Context, members ...int) (result, error) {
	clients, err := b.connect(b.clients, members...)
	if err != nil {
		return result{}, err
	}
	defer closeAll(clients)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the streams
	var streams []pb.Lease_LeaseKeepAliveClient
	var ids []int64
	for _, cli := range clients {
		lease, err := cli.Grant(ctx, 3600)
		if err != nil {
			return result{}, err
		}
		stream, err := pb.NewLeaseClient(cli.ActiveConnection()).LeaseKeepAlive(ctx)
		if err != nil {
			return result{}, err
		}
		ids, streams = append(ids, int64(lease.ID)), append(streams, stream)
	}
	return b.load(ctx, b.clients, func(_ context.Context, worker, _ int) error {
		return renew(streams[worker], ids[worker])
	})
}

// renew renews a lease on a stream and waits for the answer.
func renew(stream pb.Lease_LeaseKeepAliveClient, id int64) error {
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err == nil && answer.TTL <= 0 {
		err = fmt.Errorf("lease %x is gone", id)
	}
	return err
}

func keepAliveLeader(ctx context.Context, b *bench) (result, error) {
	return b.keepAlive(ctx, b.leader)
}

func keepAliveFollower(ctx context.Context, b *bench) (result, error) {
	return b.keepAlive(ctx, b.followers()...)
}
