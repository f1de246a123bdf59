package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// leases waits until a member answers reads by itself, or does not.
func (c *cluster) leases(i int, want bool) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		before, _, _ := c.nodes[i].ReadCounts()
		if err := c.nodes[i].Barrier(c.t.Context()); leaderless(err) {
			continue
		} else if err != nil {
			c.t.Fatal(err)
		}
		if after, _, _ := c.nodes[i].ReadCounts(); after > before == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Fatalf("member %d: reads under its lease: want %v, in 20 s", i, want)
}

// TestReadsUnderALease sets each policy and checks which members answer by themselves.
func TestReadsUnderALease(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.ReadLeaseTTL = time.Second })
	lead := c.leader()
	c.put(lead, "k", "v")
	c.leases(lead, true) // the default: the leader
	other := (lead + 1) % 3
	c.leases(other, false)
	for _, tt := range []struct {
		policy      string
		lead, other bool
	}{{"all", true, true}, {"off", false, false}, {"leader", true, false}} {
		if err := c.nodes[other].SetReadPolicy(t.Context(), tt.policy); err != nil {
			t.Fatal(err)
		}
		c.leases(lead, tt.lead)
		c.leases(other, tt.other)
		st, _ := c.nodes[lead].Status()
		if got := string(st.ReadLeases.Policy); got != tt.policy {
			t.Errorf("the policy is %q, want %q", got, tt.policy)
		}
	}
	if err := c.nodes[other].SetReadPolicy(t.Context(), "most"); !errors.Is(err, quorumlease.ErrPolicy) {
		t.Errorf("set a policy that there is not: %v", err)
	}
}

// TestReadPolicyOutlivesRestart restarts members with another configured policy.
func TestReadPolicyOutlivesRestart(t *testing.T) {
	c := newCluster(t, 1)
	c.leader()
	if err := c.nodes[0].SetReadPolicy(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	c.kill(0)
	c.cfgs[0].ReadLease = "all"
	c.start(0)
	if err := c.nodes[0].Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got quorumlease.Policy
	for end := time.Now().Add(10 * time.Second); got != quorumlease.Off && time.Now().Before(end); time.Sleep(time.Millisecond) {
		st, _ := c.nodes[0].Status() // the replica hears of what was applied after readers do
		got = st.ReadLeases.Policy
	}
	if got != quorumlease.Off {
		t.Errorf("after a restart the policy is %q", got)
	}
}

// TestWritesGoOnWithoutAReader kills a member that all writes wait for.
func TestWritesGoOnWithoutAReader(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.ReadLease = "all" })
	lead := c.leader()
	other := (lead + 1) % 3
	c.leases(other, true)
	c.kill(other)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for range 3 {
		c.put(lead, "k", "v")
		if err := c.nodes[lead].Barrier(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBootsGrow(t *testing.T) {
	b := newBench(t)
	var last uint64
	for _, tt := range []struct{ ttl, earlier time.Duration }{
		{time.Second, 0}, {3 * time.Second, time.Second}, {2 * time.Second, 3 * time.Second}, {time.Second, 3 * time.Second},
	} {
		boot, earlier, err := b.s.begin(tt.ttl, false)
		if err != nil {
			t.Fatal(err)
		}
		if boot <= last || earlier != tt.earlier {
			t.Errorf("boot %x after %x, promises of %v before, want %v", boot, last, earlier, tt.earlier)
		}
		last = boot
		// The record outlives the segment that it was in.
		for range 20 {
			b.now.commit = b.now.last
			b.append(b.now.last+1, 20, true)
			b.save(b.now.commit)
		}
		b.kill()
		b.start()
	}
}

// TestReadsByKey reads at all members in key order while others write.
func TestReadsByKey(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.ReadLease = "all/key" })
	c.leader()
	var clients sync.WaitGroup
	for k := range 4 {
		clients.Go(func() {
			key := fmt.Appendf(nil, "k%d", k)
			for i := range 60 {
				want := strconv.Itoa(i)
				if _, err := c.nodes[(k+i)%3].Propose(t.Context(), &pb.PutRequest{Key: key, Value: []byte(want)}); err != nil {
					t.Error(err)
					return
				}
				for at := range 3 {
					r := &pb.RangeRequest{Key: key}
					view, err := c.nodes[at].ReadView(t.Context(), r)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := view.Range(r)
					if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != want {
						t.Errorf("member %d: %s is %v, %v; want %s", at, key, resp, err, want)
						return
					}
				}
			}
		})
	}
	clients.Wait()
	for i := range 3 {
		if local, _, _ := c.nodes[i].ReadCounts(); local == 0 {
			t.Errorf("member %d read nothing by itself", i)
		}
	}
	// Back in strict order, with all that was held.
	if err := c.nodes[0].SetReadPolicy(t.Context(), "leader"); err != nil {
		t.Fatal(err)
	}
	c.leases(c.leader(), true)
}

// TestReadsAreCountedOnce makes the replica's first answer to a read useless: it refers to a part of
// the log that is cut off before it is applied.
func TestReadsAreCountedOnce(t *testing.T) {
	n := lonely(t, func(*Config) {})
	n.order.Add(1) // by keys; alone the replica answers nobody
	read := make(chan error, 1)
	go func() {
		_, err := n.ReadView(t.Context(), &pb.RangeRequest{Key: []byte("k")})
		read <- err
	}()
	seen := uint64(0)
	for _, index := range []uint64{1000, 0} {
		id := uint64(0)
		for end := time.Now().Add(30 * time.Second); id == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no question in 30 s")
			}
			for now := n.ids.Load(); now > seen && id == 0; now-- {
				s := &n.keyReads.shards[now%16]
				s.Lock()
				if _, ok := s.byID[now]; ok {
					id = now
				}
				s.Unlock()
			}
		}
		seen = id
		n.keyReads.answer(id, keysResult{ready: replica.KeysReady{ID: id, Index: index, UpTo: 1, Local: true}})
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if local, rounds, forwarded := n.ReadCounts(); local != 1 || rounds+forwarded != 0 {
		t.Errorf("%d local reads, %d and %d others; want the one", local, rounds, forwarded)
	}
}
