package node

import (
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// TestReadThatJoinsLate has a read begin when its member's lease has run out and another member leads.
// It joins reads whose question the stepping goroutine took while the lease lasted. It must not be
// answered as of that earlier time.
func TestReadThatJoinsLate(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.ReadLease, cfg.ReadLeaseTTL = "leader", 500*time.Millisecond })
	for began := time.Now(); !c.joinsLate(c.leader()); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("no leader had a lease in 20 s")
		}
	}
}

// joinsLate reports false if the member did not have a lease at the moment that matters.
func (c *cluster) joinsLate(lead int) bool {
	c.t.Helper()
	n, other := c.nodes[lead], (lead+1)%3
	c.put(lead, "k", "old")
	if err := patiently(leaderless, n.Barrier); err != nil { // so that it asks for promises
		c.t.Fatal(err)
	}
	busy, gather, leased, goOn := make(chan struct{}), make(chan struct{}), make(chan bool), make(chan struct{})
	resume := sync.OnceFunc(func() { close(goOn) })
	defer resume()
	n.driver.Gather(func() (replica.Input, bool) { close(busy); <-gather; return nil, false })
	<-busy // so that the next two are taken together
	n.driver.Gather(func() (replica.Input, bool) {
		_, ok := n.reads.leased()
		leased <- ok
		<-goOn
		return nil, false
	})
	first := n.barriers.join(n)
	close(gather)
	if !<-leased {
		return false
	}
	c.put(other, "k", "new") // under another leader, when the promises have run out
	if _, ok := n.reads.leased(); ok {
		c.t.Fatal("a put was acknowledged that a lease does not cover, and the lease lasts")
	}
	late := n.barriers.join(n)
	if late != first {
		c.t.Fatal("the question was closed before its turn")
	}
	resume()
	if err := late.wait(c.t.Context(), n); err != nil {
		c.t.Fatal(err)
	}
	resp, err := n.View().Range(&pb.RangeRequest{Key: []byte("k")})
	if err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "new" {
		c.t.Errorf("a linearizable read after a write under another leader: got %v, %v; want new", resp, err)
	}
	return true
}

// TestStoppedMemberVouchesForNothing reads at a stopped member, through a reference that a caller
// still has, while the lease would last. The member's next life lets others go on without this one
// (R15).
func TestStoppedMemberVouchesForNothing(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.ReadLease, cfg.ReadLeaseTTL = "all", 5*time.Second })
	for range 20 {
		h := (c.leader() + 1) % 3
		c.leases(h, true)
		old := c.nodes[h]
		lease := old.reads.lease.Load()
		c.kill(h)
		err := old.Barrier(t.Context())
		if lease != nil && old.reads.clock() < lease.Until && old.State().index >= lease.Index {
			if err == nil {
				t.Error("a stopped member answered a linearizable read")
			}
			return
		}
		c.start(h)
	}
	t.Fatal("in 20 attempts no member was stopped while it had a lease")
}
