package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/load"
)

// policyCases is the beginning of the names of the cases that decide on the cluster's first
// policy of read leases. All the while each member is read from, so that each one that may
// hold a lease does.
const policyCases = "policy-"

// readers get a key at each member, now and then, until stop is called.
func (b *bench) readers(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, m := range b.all() {
		cli, err := b.cluster.Client(m)
		if err != nil {
			cancel()
			return nil, err
		}
		all.Go(func() {
			defer cli.Close()
			for ctx.Err() == nil {
				short, done := context.WithTimeout(ctx, time.Second)
				_, _ = cli.Get(short, "gap") // its member may be down
				done()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	return func() { cancel(); all.Wait() }, nil
}

// policyPut has one client put at the leader, so that a put waits for nothing but its
// own replication.
func policyPut(ctx context.Context, b *bench) (load.Result, error) {
	return b.alone(ctx, b.leader, func(ctx context.Context, cli *clientv3.Client) error {
		_, err := cli.Put(ctx, "gap", load.Value)
		return err
	})
}

// policyGet has one client get at a member that does not lead, if there is one.
func policyGet(ctx context.Context, b *bench) (load.Result, error) {
	return b.alone(ctx, b.follower(), func(ctx context.Context, cli *clientv3.Client) error {
		_, err := cli.Get(ctx, "gap")
		return err
	})
}

func (b *bench) alone(ctx context.Context, member int, op func(context.Context, *clientv3.Client) error) (load.Result, error) {
	stop, err := b.readers(ctx)
	if err != nil {
		return load.Result{}, err
	}
	defer stop()
	return b.Alone().Each(ctx, []int{member}, op)
}

func policyLeaderDies(ctx context.Context, b *bench) (load.Result, error) {
	return b.measureDeath(ctx, b.cluster.Leader)
}

func policyHolderDies(ctx context.Context, b *bench) (load.Result, error) {
	return b.measureDeath(ctx, func(ctx context.Context) (int, error) {
		var err error
		b.leader, err = b.cluster.Leader(ctx)
		return b.follower(), err
	})
}

// measureDeath measures the longest time without an acknowledged put around the kill of a
// member. Alone there is nobody else, and it would measure how long a start takes.
func (b *bench) measureDeath(ctx context.Context, who func(context.Context) (int, error)) (load.Result, error) {
	if len(b.cluster.Members) < 3 {
		return load.Result{}, nil
	}
	stop, err := b.readers(ctx)
	if err != nil {
		return load.Result{}, err
	}
	defer stop()
	return b.measureGaps(ctx, who, openLoop)
}
