package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestTailStaysBounded writes as fast as it goes while a follower is away.
func TestTailStaysBounded(t *testing.T) {
	const limit = 512 << 10
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.MaxTailBytes = limit })
	lead := c.leader()
	c.kill((lead + 1) % 3)
	n := c.nodes[lead]
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var writers sync.WaitGroup
	var bytes atomic.Int64
	for w := range 32 {
		writers.Go(func() {
			req := &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", w), Value: make([]byte, 4000)}
			for ctx.Err() == nil {
				if _, err := n.Propose(ctx, req); err == nil {
					if bytes.Add(4000) >= 8*limit {
						cancel()
					}
				} else if ctx.Err() == nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	worst := make([]int, 3)
	for ctx.Err() == nil {
		for i, n := range c.nodes {
			if n != nil {
				st, _ := n.Status()
				worst[i] = max(worst[i], st.TailBytes)
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	writers.Wait()
	t.Logf("%d MB written, tails up to %v bytes", bytes.Load()>>20, worst)
	if bytes.Load() < 8*limit {
		t.Fatalf("only %d bytes were written", bytes.Load())
	}
	for i, got := range worst {
		if got > 2*limit {
			t.Errorf("member %d held %d bytes of log, the bound is %d", i, got, limit)
		}
	}
	c.start((lead + 1) % 3)
	if got := c.get((lead+1)%3, "k0"); len(got) != 4000 {
		t.Errorf("the member that was away has %d bytes", len(got))
	}
}
