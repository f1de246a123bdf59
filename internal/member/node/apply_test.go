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

// steady runs work on a cluster, and checks that it causes no election and does not hold up readers of
// the published states. If the machine is too busy to wake a goroutine in time, the measurement does
// not count.
func steady(t *testing.T, c *cluster, name string, work func(n *Node)) {
	t.Helper()
	lead := c.leader()
	_, term, _ := c.nodes[lead].Leader()
	ctx, cancel := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	var worstRead, worstWrite, worstRenewal, worstWake atomic.Int64
	watch := func(worst *atomic.Int64, do func()) {
		beside.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				do()
				worst.Store(max(worst.Load(), int64(time.Since(began))))
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	watch(&worstWake, func() { time.Sleep(time.Millisecond) })
	for _, n := range c.nodes {
		watch(&worstRead, func() {
			if _, err := n.View().Range(&pb.RangeRequest{Key: []byte("small")}); err != nil {
				t.Error(err)
			}
		})
	}
	watch(&worstWrite, func() { c.put(lead, "small", "x") })
	watch(&worstRenewal, func() {
		if _, err := c.nodes[(lead+1)%3].KeepAlive(1)(t.Context()); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	work(c.nodes[lead])
	took := time.Since(began)
	cancel()
	beside.Wait()
	t.Logf("%s took %v; beside it the longest read of a published state took %v, write %v, renewal %v", name, took,
		time.Duration(worstRead.Load()), time.Duration(worstWrite.Load()), time.Duration(worstRenewal.Load()))
	if d := time.Duration(worstWake.Load()); d > 300*time.Millisecond {
		t.Logf("%s: the machine took %v to wake a goroutine", name, d)
		return
	}
	if d := time.Duration(worstRead.Load()); d > 500*time.Millisecond {
		t.Errorf("%s: a read of the published state took %v", name, d)
	}
	if _, now, _ := c.nodes[lead].Leader(); now != term {
		t.Errorf("%s: term %d became %d: a heartbeat was missed", name, term, now)
	}
}

// fill puts keys under a prefix, 1,000 in a revision.
func fill(t *testing.T, n *Node, prefix string, keys int) {
	t.Helper()
	for at := 0; at < keys; {
		var ops []*pb.RequestOp
		for range 1000 {
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: fmt.Appendf(nil, "%s%08d", prefix, at)}}})
			at++
		}
		if _, err := n.Propose(t.Context(), &pb.TxnRequest{Success: ops}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLongWorkStopsNoHeartbeat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while; `go test ./internal/member/node` runs it")
	}
	c := newCluster(t, 3)
	n := c.nodes[c.leader()]
	ctx := t.Context()

	keys, versions, leases := 50_000, 200_000, 20_000
	if raceDetector { // it makes all of this ten times slower
		keys, versions, leases = keys/5, versions/10, leases/10
	}
	fill(t, n, "mass/", keys)
	steady(t, c, fmt.Sprintf("the delete of %d keys", keys), func(n *Node) {
		resp, err := n.Propose(ctx, &pb.DeleteRangeRequest{Key: []byte("mass/"), RangeEnd: []byte("mass0")})
		if err != nil || resp.(*pb.DeleteRangeResponse).Deleted != int64(keys) {
			t.Errorf("deleted %v, %v; want %d", resp, err, keys)
		}
	})

	for range (versions - 2*keys) / 1000 {
		fill(t, n, "version/", 1000)
	}
	steady(t, c, fmt.Sprintf("the compaction of %d versions", versions), func(n *Node) {
		if got := n.View().Stats().Versions; got < int64(versions) {
			t.Errorf("%d versions to begin with", got)
		}
		if _, err := n.Propose(ctx, &pb.CompactionRequest{Revision: n.View().Revision()}); err != nil {
			t.Error(err)
		}
		for began := time.Now(); n.View().Stats().Versions > 5000; time.Sleep(time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%d versions are left", n.View().Stats().Versions)
			}
		}
	})

	const ttl = 3
	var granters sync.WaitGroup
	var last atomic.Int64
	for g := range 200 {
		granters.Go(func() {
			for i := range leases / 200 {
				id := int64(1000 + g*leases/200 + i)
				if _, err := n.Propose(ctx, &pb.LeaseGrantRequest{ID: id, TTL: ttl}); err != nil {
					t.Error(err)
					return
				}
				if _, err := n.Propose(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "lease/%d", id), Lease: id}); err != nil {
					t.Error(err)
					return
				}
			}
			last.Store(max(last.Load(), time.Now().UnixNano()))
		})
	}
	granters.Wait()
	steady(t, c, fmt.Sprintf("the expiry of %d leases", leases), func(n *Node) {
		due := time.Unix(0, last.Load()).Add(ttl * time.Second)
		for began := time.Now(); n.View().Stats().Leases > 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatalf("%d leases are left", n.View().Stats().Leases)
			}
		}
		t.Logf("the last lease ended %v after it was due at the latest", time.Since(due))
		if resp, err := n.View().Range(&pb.RangeRequest{Key: []byte("lease/"), RangeEnd: []byte("lease0"), CountOnly: true}); err != nil || resp.Count != 0 {
			t.Errorf("%d keys outlived their leases, %v", resp.GetCount(), err)
		}
	})
}

// TestCompactionShowsWithoutFurtherWrites: the reported size, and the memory of the published state,
// shrink without further writes.
func TestCompactionShowsWithoutFurtherWrites(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[0]
	for range 30 {
		fill(t, n, "k", 1000)
	}
	before := n.View().Stats()
	if _, err := n.Propose(t.Context(), &pb.CompactionRequest{Revision: n.View().Revision()}); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); n.View().Stats().Versions > 1000; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%+v became %+v", before, n.View().Stats())
		}
	}
}
