package kv

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Requests are counted as etcd counts them, those of Views with those of their Store.
func TestCounts(t *testing.T) {
	s, last := New(), [5]uint64{}
	s.Counts = new(Counts)
	counted := func(what string, ranges, puts, deletes, txns, bytes uint64) {
		t.Helper()
		c, want := s.Counts, [5]uint64{ranges, puts, deletes, txns, bytes}
		now := [5]uint64{c.Ranges.Load(), c.Puts.Load(), c.Deletes.Load(), c.Txns.Load(), c.PutBytes.Load()}
		var got [5]uint64
		for i := range got {
			got[i] = now[i] - last[i]
		}
		if got != want {
			t.Errorf("%s counts as %v ranges, puts, deletes, transactions and bytes, want %v", what, got, want)
		}
		last = now
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := []byte("key")
	must(s.Put(&pb.PutRequest{Key: key, Value: []byte("value")}))
	counted("a put", 0, 1, 0, 0, 8)
	for _, r := range []*pb.PutRequest{{Key: key, IgnoreValue: true}, {Key: key, Value: []byte("value"), PrevKv: true}} {
		must(s.Put(r))
		counted("a put that reads", 1, 1, 0, 1, 8)
	}
	if _, err := s.Put(&pb.PutRequest{Key: key, Lease: 9}); err == nil {
		t.Error("a put of no lease was done")
	}
	counted("a put that fails", 0, 0, 0, 0, 0)
	must(s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("none")}))
	counted("a delete of nothing", 0, 0, 1, 0, 0)
	must(s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, PrevKv: true}))
	counted("a delete that reads", 1, 0, 1, 1, 0)
	put := func(lease int64) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Lease: lease}}}
	}
	get := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}
	none := &pb.Compare{Key: key, Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: 0}}
	one := &pb.Compare{Key: key, Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: 1}}
	must(s.Txn(&pb.TxnRequest{Compare: []*pb.Compare{none}, Success: []*pb.RequestOp{put(0)}}))
	counted("a put if there is nothing", 1, 1, 0, 0, 3)
	must(s.Txn(&pb.TxnRequest{Compare: []*pb.Compare{one, none, one}, Failure: []*pb.RequestOp{put(0), get}}))
	counted("a transaction", 3, 1, 0, 2, 3)
	must(s.View().Range(&pb.RangeRequest{Key: key}))
	counted("a range", 1, 0, 0, 0, 0)
	must(s.View().Txn(&pb.TxnRequest{Compare: []*pb.Compare{one}, Failure: []*pb.RequestOp{get}}))
	counted("a transaction that reads", 2, 0, 0, 1, 0)
	must(nil, s.Grant(7, 60))
	must(s.Put(&pb.PutRequest{Key: key, Lease: 7}))
	must(s.Put(&pb.PutRequest{Key: []byte("other"), Lease: 7}))
	counted("two keys of a lease", 0, 2, 0, 0, 8)
	must(nil, s.Revoke(7))
	counted("the end of their lease", 0, 0, 2, 1, 0)
	if _, err := s.View().Range(&pb.RangeRequest{Key: key, Revision: 99}); err == nil {
		t.Error("a revision of the future was read")
	}
	counted("a read that fails", 0, 0, 0, 0, 0)
}

func TestLeasesAreCounted(t *testing.T) {
	s := New()
	s.Counts = new(Counts)
	ttls := []int64{0, 1, 2, 3, 4, 5, 1 << 23, 1<<23 + 1}
	for i, ttl := range append(ttls, MaxLeaseTTL+1) {
		if err := s.Grant(int64(i)+1, ttl); (err != nil) != (i == len(ttls)) {
			t.Fatal(i, err)
		}
	}
	for range 2 {
		s.Revoke(1)
	}
	if g, r := s.Counts.Granted.Load(), s.Counts.Revoked.Load(); g != 8 || r != 1 {
		t.Errorf("%d leases are counted as granted and %d as revoked, want 8 and 1", g, r)
	}
	count, sum, within := s.Counts.TTLs.Told()
	if want := uint64(1 + 1 + 2 + 3 + 4 + 5 + 1<<24 + 1); count != 8 || sum != want {
		t.Errorf("%d TTLs are counted, %d s together, want 8 of %d s", count, sum, want)
	}
	if within[0] != 2 || within[1] != 3 || within[2] != 5 || within[3] != 6 || within[22] != 6 || within[23] != 7 {
		t.Errorf("TTLs within 1, 2, 4, … seconds are %v, want 2, 3, 5, 6, … 6, 7", within)
	}
}
