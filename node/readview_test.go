package node

import (
	"errors"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/replica"
)

// TestReadViewLooksAtTheOrderAgain has the order change while a read waits for its round: the
// state that is published by then is for readers of single keys, so it asks for its keys.
func TestReadViewLooksAtTheOrderAgain(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	read := make(chan error, 1)
	go func() {
		_, err := n.ReadView(t.Context(), &pb.RangeRequest{Key: []byte("k")})
		read <- err
	}()
	number := uint64(0)
	for end := time.Now().Add(10 * time.Second); number == 0; time.Sleep(time.Millisecond) {
		n.barriers.mu.Lock()
		if len(n.barriers.waiting) > 0 {
			number = n.barriers.waiting[0].number
		}
		n.barriers.mu.Unlock()
		if time.Now().After(end) {
			t.Fatal("the read asks for no round")
		}
	}
	n.driver.Do(func() {}) // the stepping goroutine has looked
	n.order.Add(1)
	n.barriers.confirmed(n, replica.ReadReady{Number: number})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n.keyReads.expire(time.Now().Add(time.Hour), func(time.Time) keysResult { return keysResult{err: errDisk} })
		select {
		case err := <-read:
			if !errors.Is(err, errDisk) {
				t.Errorf("a read that set out in strict order is answered with %v in key order, without asking for its keys", err)
			}
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the read is not answered")
		}
	}
}

// TestALeaseIsWithdrawn has the replica give up leases of both orders whose time has not come.
func TestALeaseIsWithdrawn(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	told := func(out any) { n.driver.Do(func() { n.outcomes([]any{out}) }) }
	told(replica.ReadLease{Until: 1 << 60, Index: 1})
	if _, ok := n.reads.leased(); !ok {
		t.Fatal("no read by a lease that lasts")
	}
	told(replica.ReadLease{})
	if _, ok := n.reads.leased(); ok {
		t.Error("reads by a lease that was withdrawn")
	}
	told(&replica.KeyLease{Until: 1 << 60})
	if n.keyLease() == nil {
		t.Fatal("no read by a lease of key order that lasts")
	}
	told((*replica.KeyLease)(nil))
	if n.keyLease() != nil {
		t.Error("reads by a lease of key order that was withdrawn")
	}
}
