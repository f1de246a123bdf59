package etcd_test

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/lab/members"
)

// TestLeaderDies: a holder keeps its lease, and a waiter its place, when the leader is
// gone; and the cluster goes on with the next.
func TestLeaderDies(t *testing.T) {
	members, endpoints := members.Start(t, "a", "b", "c")
	var leasers []*etcd.Leaser
	for range 2 {
		l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: endpoints})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		leasers = append(leasers, l)
	}
	claim := tenure.Claim{Name: t.Name(), TTL: 5 * time.Second}
	held, err := leasers[0].Acquire(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan tenure.Lease, 1)
	go func() {
		lease, err := leasers[1].Acquire(t.Context(), claim)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	waitFor(t, "a waiter", func() bool {
		s, err := leasers[0].Observe(t.Context(), claim.Name)
		return err == nil && s.Waiting == 1
	})
	leader := ""
	for name, s := range members {
		if id, _, _ := s.Node.Leader(); id == s.Node.ID() {
			leader = name
		}
	}
	if leader == "" {
		t.Fatal("no leader")
	}
	members[leader].Stop()
	select {
	case <-held.Done():
		t.Fatalf("lost when the leader died: %v", held.Err())
	case <-next:
		t.Fatal("the waiter got in while the lease was held")
	case <-time.After(2 * claim.TTL):
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case lease := <-next:
		if lease.Token() <= held.Token() {
			t.Errorf("token %d after %d", lease.Token(), held.Token())
		}
	case <-time.After(claim.TTL):
		t.Error("the waiter does not get in after the release")
	}
}
