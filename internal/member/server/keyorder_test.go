package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// heldUp starts three members. One of them, which holds the key "hot", is gone: a put to that
// key waits for the end of the promises to it. It returns a client of the leader.
func heldUp(t *testing.T, promise time.Duration) (cl *clientv3.Client, put <-chan error) {
	servers, endpoints := startWith(t, 3, func(c *Config) { c.Node.ReadLease, c.Node.ReadLeaseTTL = "all/key", promise })
	lead := slices.IndexFunc(servers, func(s *Server) bool { id, _, _ := s.Node.Leader(); return id == s.Node.ID() })
	other := (lead + 1) % 3
	var members []*etcdserverpb.Member
	until(t, "the members have told their names", func() bool {
		members = servers[lead].Node.Members()
		return !slices.ContainsFunc(members, func(m *etcdserverpb.Member) bool { return m.Name == "" })
	})
	name := func(s *Server) string {
		return members[slices.IndexFunc(members, func(m *etcdserverpb.Member) bool { return m.ID == s.Node.ID() })].Name
	}
	text := fmt.Sprintf("key:hot = %s,%s; default = %[1]s", name(servers[lead]), name(servers[other]))
	if err := servers[lead].Node.SetReadCells(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	reader := dial(t, endpoints[other])
	until(t, "the holder reads by itself", func() bool {
		if _, err := reader.Get(t.Context(), "hot"); err != nil {
			t.Fatal(err)
		}
		local, _, _ := servers[other].Node.ReadCounts()
		return local > 0
	})
	servers[other].Stop()
	cl = dial(t, endpoints[lead])
	done := make(chan error, 1)
	go func() {
		_, err := cl.Put(t.Context(), "hot", "1")
		done <- err
	}()
	until(t, "the put is held", func() bool {
		// Another key's write is later in the log, and is not.
		resp, err := cl.Put(t.Context(), "cold", "1")
		return err == nil && resp.Header.Revision > 2
	})
	return cl, done
}

// TestLockWhileAnotherKeyIsHeld takes a lock twice, while the published state is older than the
// locks' keys: the second has to wait, not to fail.
func TestLockWhileAnotherKeyIsHeld(t *testing.T) {
	cl, _ := heldUp(t, 2*time.Second)
	lock := v3lockpb.NewLockClient(cl.ActiveConnection())
	if _, err := lock.Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l")}); err != nil {
		t.Fatalf("the first: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if resp, err := lock.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the second, in 100 ms: %v, %v; want it to wait", resp, err)
	}
}

// TestCompactionWhileAKeyIsHeld compacts to a revision that is not published yet: the published
// state is served on.
func TestCompactionWhileAKeyIsHeld(t *testing.T) {
	cl, held := heldUp(t, 2*time.Second)
	resp, err := cl.Put(t.Context(), "cold", "2")
	if err != nil {
		t.Fatal(err)
	}
	compacted := make(chan error, 1)
	go func() {
		_, err := cl.Compact(context.Background(), resp.Header.Revision)
		compacted <- err
	}()
	for len(held) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := cl.Get(ctx, "cold", clientv3.WithSerializable())
		cancel()
		if err != nil {
			t.Fatalf("a serializable get: %v", err)
		}
	}
	for _, done := range []<-chan error{held, compacted} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestReadsOfWhatWasAnswered reads at revisions that writes have just returned, and lists a
// lease that was just granted, while the published state lacks them.
func TestReadsOfWhatWasAnswered(t *testing.T) {
	cl, _ := heldUp(t, 2*time.Second)
	written, err := cl.Put(t.Context(), "cold", "2")
	if err != nil {
		t.Fatal(err)
	}
	granted, err := cl.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	get := clientv3.OpGet("cold", clientv3.WithRev(written.Header.Revision))
	if resp, err := cl.Txn(t.Context()).Then(get).Commit(); err != nil {
		t.Errorf("a transaction at revision %d: %v", written.Header.Revision, err)
	} else if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) != 1 || string(kvs[0].Value) != "2" {
		t.Errorf("a transaction at revision %d: %v", written.Header.Revision, kvs)
	}
	if resp, err := cl.Do(t.Context(), get); err != nil || len(resp.Get().Kvs) != 1 {
		t.Errorf("a get at revision %d: %v, %v", written.Header.Revision, resp, err)
	}
	future := clientv3.OpGet("cold", clientv3.WithRev(written.Header.Revision+1000))
	if resp, err := cl.Txn(t.Context()).Then(future).Commit(); !errors.Is(err, rpctypes.ErrFutureRev) {
		t.Errorf("a transaction at a revision that there is not: %v, %v", resp, err)
	}
	if resp, err := cl.Leases(t.Context()); err != nil || len(resp.Leases) != 1 || resp.Leases[0].ID != granted.ID {
		t.Errorf("the leases: %v, %v, want %x", resp, err, granted.ID)
	}
}
