package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// TestGuardAfterCompaction: a holder's watch on its key breaks after the revision that
// it began at was compacted. It goes on from the present, without asking all the time.
func TestGuardAfterCompaction(t *testing.T) {
	server := endpoint(t)
	p, plain := newProxy(t, server), plainClient(t, server)
	var reads atomic.Int32
	client := plainClient(t, p.addr(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method == "/etcdserverpb.KV/Range" {
			reads.Add(1)
		}
		return call(ctx, method, req, reply, cc, opts...)
	})
	l := etcd.New(client, nil)
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	put, err := plain.Put(t.Context(), "something/else", "")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if put, err = plain.Put(t.Context(), "something/else", ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := plain.Compact(t.Context(), put.Header.Revision); err != nil {
		t.Fatal(err)
	}
	p.sever()
	waitFor(t, "a read after the watch was refused", func() bool { return reads.Load() > 0 })
	for range 2 { // renewals, a third of the TTL apart
		before := lease.Deadline()
		waitFor(t, "a renewal", func() bool { return lease.Deadline().Sub(before) > ttl/6 })
	}
	if n := reads.Load(); n > 4 {
		t.Errorf("%d reads since the compaction, want a watch", n)
	}
	if _, err := plain.Delete(t.Context(), t.Name()+"/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder does not notice that its key is gone")
	}
	if err := lease.Err(); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("Err returns %v, want %v", err, tenure.ErrLost)
	}
}
