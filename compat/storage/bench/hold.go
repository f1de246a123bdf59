package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// holding is what it took to hold leases for some time.
type holding struct {
	For      time.Duration
	Renewals int
	P50, P99 time.Duration // of a renewal
	Batches  int           // asked of stores
	Used     usage         // by all processes
}

// hold holds leases in storage, which renew themselves.
func (j job) hold(ctx context.Context, l *storage.Leaser, rec *recorder) (h holding, err error) {
	held := make([]tenure.Lease, j.Leases)
	errs := make([]error, j.Leases)
	var all sync.WaitGroup
	for i := range held {
		all.Go(func() {
			held[i], errs[i] = l.Acquire(ctx, tenure.Claim{Name: fmt.Sprintf("%s-%d", j.Name, i)})
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return h, err
		}
	}
	if j.Leases > 0 {
		time.Sleep(j.For) // the crowd at the beginning makes δ grow for a while
	}
	pids := append([]int{os.Getpid()}, j.Servers...)
	rec.reset()
	before := use(pids)
	time.Sleep(j.For)
	h.Used = use(pids).less(before)
	renewals, took, batches := rec.renewals()
	for _, lease := range held {
		if err := lease.Check(); err != nil {
			return h, fmt.Errorf("%s: %w", lease.Name(), err)
		}
	}
	h.For, h.Renewals, h.Batches = j.For, renewals, batches
	h.P50, h.P99 = quantile(took, 0.5), quantile(took, 0.99)
	return h, nil
}

// serverTTL is what the leases of a server have, and the Δ of those in storage, in
// seconds; both are renewed every third of it.
const serverTTL = 3

// keepAlive holds leases at a server and renews them all at a time, on one stream, as
// clientv3 does.
func (j job) keepAlive(ctx context.Context) (h holding, err error) {
	cli, err := server.Client(j.Endpoint)
	if err != nil {
		return h, err
	}
	defer cli.Close()
	var ids []clientv3.LeaseID
	for range j.Leases {
		lease, err := cli.Grant(ctx, serverTTL)
		if err != nil {
			return h, err
		}
		ids = append(ids, lease.ID)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := pb.NewLeaseClient(cli.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return h, err
	}
	pids := append([]int{os.Getpid()}, j.Servers...)
	before := use(pids)
	var took []time.Duration
	period := time.NewTicker(serverTTL * time.Second / 3)
	defer period.Stop()
	for range int(j.For / (serverTTL * time.Second / 3)) {
		<-period.C
		sent := time.Now()
		for _, id := range ids {
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
				return h, err
			}
		}
		for range ids {
			answer, err := stream.Recv()
			if err != nil {
				return h, err
			}
			if answer.TTL <= 0 {
				return h, fmt.Errorf("lease %x is gone", answer.ID)
			}
			took = append(took, time.Since(sent))
		}
	}
	slices.Sort(took)
	return holding{
		For: j.For, Renewals: len(took), P50: quantile(took, 0.5), P99: quantile(took, 0.99), Used: use(pids).less(before),
	}, nil
}
