package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestReadsWhileWhoHoldsWhatChanges reads at all members while keys are divided again and again,
// policies of both orders alternate, and the leader hands over. No read may miss a value that was
// acknowledged, or read, before it began.
func TestReadsWhileWhoHoldsWhatChanges(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.ReadLease, cfg.ReadLeaseTTL = "all/key", 400*time.Millisecond })
	c.leader()
	const keys = 6
	var newest [keys]atomic.Int64 // acknowledged or read
	var reads, writes, changes atomic.Int64
	raise := func(k int, v int64) {
		for old := newest[k].Load(); old < v && !newest[k].CompareAndSwap(old, v); old = newest[k].Load() {
		}
	}
	key := func(k int) []byte { return fmt.Appendf(nil, "k%d", k) }
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() {
			for i := int64(1); ctx.Err() == nil; i++ {
				if _, err := c.nodes[rand.IntN(3)].Propose(ctx, &pb.PutRequest{Key: key(k), Value: fmt.Append(nil, i)}); err == nil {
					raise(k, i)
					writes.Add(1)
				}
			}
		})
	}
	for i := range 9 {
		all.Go(func() {
			for ctx.Err() == nil {
				k := rand.IntN(keys)
				floor := newest[k].Load()
				r := &pb.RangeRequest{Key: key(k)}
				view, err := c.nodes[i%3].ReadView(ctx, r)
				if err != nil {
					continue // who leads may be open
				}
				resp, err := view.Range(r)
				if err != nil {
					continue // compacted meanwhile
				}
				var got int64
				if len(resp.Kvs) > 0 {
					fmt.Sscan(string(resp.Kvs[0].Value), &got)
				}
				if got < floor {
					t.Errorf("member %d reads %d under k%d after %d was acknowledged or read", i%3, got, k, floor)
					cancel()
				}
				raise(k, got)
				reads.Add(1)
			}
		})
	}
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			at := c.nodes[rand.IntN(3)]
			short, stop := context.WithTimeout(ctx, time.Second)
			switch n % 4 {
			case 0:
				policies := [...]string{"all", "all/key", "leader", "static/key"}
				_ = at.SetReadPolicy(short, policies[rand.IntN(len(policies))])
			case 3:
				for _, o := range c.nodes {
					if leader, _, _ := o.Leader(); leader == o.ID() {
						_ = o.HandOver(short)
					}
				}
			default:
				_ = at.SetReadCells(short, someCells(c, keys))
			}
			stop()
			changes.Add(1)
		}
	})
	enough := func() bool { return reads.Load() > 3000 && writes.Load() > 300 && changes.Load() > 20 }
	for end := time.Now().Add(30 * time.Second); !enough() && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("after 30 s: %d reads, %d writes, %d changes", reads.Load(), writes.Load(), changes.Load())
			break
		}
	}
	cancel()
	all.Wait()
}

// someCells divides some keys among members at random.
func someCells(c *cluster, keys int) string {
	some := func() string {
		var names []string
		for _, cfg := range c.cfgs {
			if rand.IntN(2) == 0 {
				names = append(names, cfg.Name)
			}
		}
		if names == nil {
			return "*"
		}
		return strings.Join(names, ",")
	}
	text := "default = " + some()
	for k := range keys {
		if rand.IntN(2) == 0 {
			text = fmt.Sprintf("key:k%d = %s; %s", k, some(), text)
		}
	}
	return text
}
