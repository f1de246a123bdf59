package kv

import (
	"fmt"
	"runtime"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// key gives the i-th key of a benchmark, fresh: the store keeps it.
func key(i int) []byte { return fmt.Appendf(nil, "key/%08d", i) }

// filled is a store of n keys, each with 64 bytes of value.
func filled(b *testing.B, n int) *Store {
	b.Helper()
	s := New()
	for i := range n {
		if _, err := s.Put(&pb.PutRequest{Key: key(i), Value: make([]byte, 64)}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// trim keeps the history of a long benchmark short, as a server would.
func trim(b *testing.B, s *Store, i int) {
	if i%10000 == 9999 {
		b.StopTimer()
		if err := s.Compact(s.Revision()); err != nil {
			b.Fatal(err)
		}
		for s.Reclaim(10000) {
		}
		b.StartTimer()
	}
}

func BenchmarkPutUpdate(b *testing.B) {
	const n = 100_000
	s := filled(b, n)
	requests := make([]*pb.PutRequest, 1024)
	for i := range requests {
		requests[i] = &pb.PutRequest{Key: key(i * 7919 % n), Value: make([]byte, 64)}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := s.Put(requests[i%len(requests)]); err != nil {
			b.Fatal(err)
		}
		trim(b, s, i)
	}
}

func BenchmarkPutCreate(b *testing.B) {
	s := New()
	requests := make([]pb.PutRequest, b.N)
	for i := range requests {
		requests[i].Key = key(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := s.Put(&requests[i]); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkRange(b *testing.B, r *pb.RangeRequest) {
	v := filled(b, 100_000).View()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := v.Range(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRange1(b *testing.B) {
	benchmarkRange(b, &pb.RangeRequest{Key: key(77777)})
}

func BenchmarkRange100(b *testing.B) {
	benchmarkRange(b, &pb.RangeRequest{Key: key(77700), RangeEnd: key(77800)})
}

// BenchmarkMutex is a lock taken and given back, as the clients' mutex does it: a
// transaction that creates a key and looks for the first, and a deletion.
func BenchmarkMutex(b *testing.B) {
	s := filled(b, 10_000)
	if err := s.Grant(7, 60); err != nil {
		b.Fatal(err)
	}
	first := rangeOp(&pb.RangeRequest{
		Key: []byte("lock/"), RangeEnd: []byte("lock0"), Limit: 1,
		SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND,
	})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		mine := []byte("lock/7")
		resp, err := s.Txn(&pb.TxnRequest{
			Compare: []*pb.Compare{{Key: mine, Target: pb.Compare_CREATE}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: mine, Lease: 7}}}, first},
			Failure: []*pb.RequestOp{rangeOp(&pb.RangeRequest{Key: mine}), first},
		})
		if err != nil || !resp.Succeeded {
			b.Fatal(err)
		}
		if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: mine}); err != nil {
			b.Fatal(err)
		}
		trim(b, s, i)
	}
}

// benchmarkCycle grants a lease, puts a key with it and revokes it, beside many
// others, publishing a view after every so many cycles.
func benchmarkCycle(b *testing.B, publish int) {
	s := filled(b, 10_000)
	for id := range int64(10_000) {
		if err := s.Grant(1_000_000_000+id*97, 60); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		id := 1_000_000_000 + int64(i%9_000)*97 + 1
		if err := s.Grant(id, 60); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Put(&pb.PutRequest{Key: key(20_000 + i%1000), Lease: id}); err != nil {
			b.Fatal(err)
		}
		if err := s.Revoke(id); err != nil {
			b.Fatal(err)
		}
		if i%publish == 0 {
			s.View()
		}
		trim(b, s, i)
	}
}

func BenchmarkGrantPutRevoke(b *testing.B)            { benchmarkCycle(b, 20) }
func BenchmarkGrantPutRevokePublishEach(b *testing.B) { benchmarkCycle(b, 1) }

// BenchmarkView publishes after each update, the cheap case.
func BenchmarkViewAfterUpdate(b *testing.B) {
	s := filled(b, 10_000)
	r := &pb.PutRequest{Key: key(1), Value: make([]byte, 64)}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := s.Put(r); err != nil {
			b.Fatal(err)
		}
		s.View()
		trim(b, s, i)
	}
}

// BenchmarkViewAfterCreate publishes after each created key, so that each create
// copies a path of the tree.
func BenchmarkViewAfterCreate(b *testing.B) {
	s := filled(b, 100_000)
	requests := make([]pb.PutRequest, b.N)
	for i := range requests {
		requests[i].Key = fmt.Appendf(nil, "key/%08d/%d", i*7919%100_000, i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := s.Put(&requests[i]); err != nil {
			b.Fatal(err)
		}
		s.View()
	}
}

// BenchmarkLeaseMemory reports the heap that a lease with one key takes: all of
// it, and without what the key would take anyway.
func BenchmarkLeaseMemory(b *testing.B) {
	const n = 100_000
	var s *Store
	for range b.N {
		measure := func(leased bool) float64 {
			s = nil
			before := heap()
			s = New()
			for i := range n {
				var id int64
				if leased {
					id = 0x7000_0000_0000_0000 + int64(i)*7919%n
					if err := s.Grant(id, 60); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := s.Put(&pb.PutRequest{Key: key(i), Value: []byte("holder"), Lease: id}); err != nil {
					b.Fatal(err)
				}
			}
			return float64(heap()-before) / n
		}
		keys := measure(false)
		all := measure(true)
		b.ReportMetric(all, "B/lease+key")
		b.ReportMetric(all-keys, "B/lease")
		b.ReportMetric(float64(s.View().Stats().Bytes)/n, "estimated-B/lease+key")
	}
	runtime.KeepAlive(s)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
