package kv

import (
	"bytes"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A store that is raised has the same keys, with their leases, at a greater revision, and no history. Its leases
// have their whole TTL.
func TestRaise(t *testing.T) {
	s := New()
	put := func(key string, lease int64) {
		t.Helper()
		if _, err := s.Put(&pb.PutRequest{Key: []byte(key), Value: []byte("v"), Lease: lease}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Grant(7, 60), s.Grant(9, 30)); err != nil {
		t.Fatal(err)
	}
	put("b", 7)
	put("a", 0)
	put("b", 7)
	s.Checkpoint(9, 1500)
	before := s.View()
	raised, err := Raise(before, 1000)
	if err != nil {
		t.Fatal(err)
	}
	v := raised.View()
	if v.Revision() != before.Revision()+1000 || v.CompactRevision() != v.Revision() || !v.Raised() {
		t.Errorf("revision %d raised by 1000 is %d, compacted at %d", before.Revision(), v.Revision(), v.CompactRevision())
	}
	all := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	was, err := before.Range(all)
	is, err2 := v.Range(all)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if len(is.Kvs) != 2 || len(was.Kvs) != 2 {
		t.Fatalf("keys %v, had %v", is.Kvs, was.Kvs)
	}
	for i := range is.Kvs {
		if was, is := was.Kvs[i], is.Kvs[i]; !bytes.Equal(is.Key, was.Key) || is.Version != was.Version || is.ModRevision != was.ModRevision || is.Lease != was.Lease {
			t.Errorf("raised is %v, was %v", is, was)
		}
	}
	if l, ok := v.Lease(9); !ok || l != (LeaseInfo{ID: 9, TTL: 30}) {
		t.Errorf("a lease with a checkpoint is %+v, %v; want its whole TTL of 30 s", l, ok)
	}
	if keys := v.LeaseKeys(7); len(keys) != 1 || string(keys[0]) != "b" {
		t.Errorf("the lease's keys are %q, want b", keys)
	}
	if _, err := v.Range(&pb.RangeRequest{Key: []byte("a"), Revision: before.Revision()}); !errors.Is(err, ErrCompacted) {
		t.Errorf("the state before is read with %v, want that it is compacted", err)
	}
	for _, by := range []int64{0, -1, maxRevision} {
		if _, err := Raise(before, by); err == nil {
			t.Errorf("a revision is raised by %d", by)
		}
	}
}
