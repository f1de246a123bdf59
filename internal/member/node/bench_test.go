package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Three members in this process, their sockets on loopback and their logs on disk, in
// both orders, one after the other:
//
//	go test ./internal/member/node -run '^$' -bench Orders -benchtime 3s
//
// Each client goes to a member of its own, round robin, with keys of which there are
// 10,000. Members hold read leases while they are read from, under both policies: a
// write waits for all three.

const benchKeys = 10_000

var benchPolicies = [...]string{"all", "all/key"}

func benchOrders(b *testing.B, op func(ctx context.Context, n *Node, key []byte) error) {
	for _, clients := range []int{1, 16, 256} {
		for _, policy := range benchPolicies {
			b.Run(fmt.Sprintf("%s/clients=%d", policy, clients), func(b *testing.B) {
				c := newCluster(b, 3, func(cfg *Config) { cfg.ReadLease = policy })
				c.leader()
				var wg sync.WaitGroup
				for w := range 100 {
					wg.Go(func() {
						for i := w; i < benchKeys; i += 100 {
							c.put(i%3, benchKey(i), "before")
						}
					})
				}
				wg.Wait()
				for i := range c.nodes { // until it holds a lease
					c.local(i, benchKey(0), true)
				}
				var next atomic.Int64
				cpu := cpuTime(b)
				b.ResetTimer()
				for w := range clients {
					wg.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							if err := op(b.Context(), c.nodes[w%3], []byte(benchKey(int(i*7919)%benchKeys))); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
				b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

// cpuTime is the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchKey(i int) string { return fmt.Sprintf("key/%08d", i) }

func BenchmarkOrdersWrite(b *testing.B) {
	value := make([]byte, 256)
	benchOrders(b, func(ctx context.Context, n *Node, key []byte) error {
		_, err := n.Propose(ctx, &pb.PutRequest{Key: key, Value: value})
		return err
	})
}

func BenchmarkOrdersRead(b *testing.B) {
	benchOrders(b, func(ctx context.Context, n *Node, key []byte) error {
		get := &pb.RangeRequest{Key: key}
		view, err := n.ReadView(ctx, get)
		if err == nil {
			_, err = view.Range(get)
		}
		return err
	})
}
