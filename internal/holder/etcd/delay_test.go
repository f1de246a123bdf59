package etcd_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// TestLostWithALockDelay: the server keeps others out for TTL and lock delay. A holder that has
// lost the lease ends that neither by Release nor by Close: its last messages may still be on their
// way.
func TestLostWithALockDelay(t *testing.T) {
	server := endpoint(t)
	c, plain := clock.NewSimulated(1), plainClient(t, server)
	l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{server}, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	claim := tenure.Claim{Name: t.Name(), TTL: 10 * time.Second, LockDelay: time.Minute}
	lease, err := l.Acquire(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	got, err := plain.Get(t.Context(), t.Name()+"/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	left, err := plain.TimeToLive(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease))
	if err != nil || left.GrantedTTL != 70 {
		t.Errorf("the server granted %v, %v; want 10 s and the lock delay of 60 s", left, err)
	}
	c.Jump(2 * claim.TTL)
	<-lease.Done()
	if err := lease.Release(t.Context()); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("Release of what was lost returns %v, want %v", err, tenure.ErrLost)
	}
	if queued(t, plain) == 0 {
		t.Fatal("the release of a lease that was lost ends the lock delay")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if queued(t, plain) == 0 {
		t.Error("Close ends the lock delay of a lease that was lost")
	}
}

// TestUntilIsTheHolders: a state shows until when the holder believes in its lease, and not until
// when the server keeps others out.
func TestUntilIsTheHolders(t *testing.T) {
	l := open(t, endpoint(t))
	claim := tenure.Claim{Name: t.Name(), TTL: 30 * time.Second, LockDelay: time.Hour}
	if _, err := l.Acquire(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	s, err := l.Observe(t.Context(), t.Name())
	if err != nil || len(s.Holders) != 1 {
		t.Fatal(s, err)
	}
	if d := time.Until(s.Holders[0].Until); d <= 0 || d > claim.TTL {
		t.Errorf("the holder is said to hold for %v, with a TTL of %v and a lock delay of %v", d, claim.TTL, claim.LockDelay)
	}
}
