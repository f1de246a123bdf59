package kv

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestSizeOfTheHeap: the quota counts what the state really takes, within a fifth.
func TestSizeOfTheHeap(t *testing.T) {
	put := func(s *Store, lease int64, size int, format string, args ...any) {
		if _, err := s.Put(&pb.PutRequest{Key: fmt.Appendf(nil, format, args...), Value: make([]byte, size), Lease: lease}); err != nil {
			t.Fatal(err)
		}
	}
	grant := func(s *Store, id int64) {
		if err := s.Grant(id, 60); err != nil {
			t.Fatal(err)
		}
	}
	const n = 30_000
	for name, fill := range map[string]func(*Store){
		"small keys": func(s *Store) {
			for i := range n {
				put(s, 0, 8, "key-%08d", i)
			}
		},
		"keys in no order": func(s *Store) {
			for i := range n {
				put(s, 0, 100, "/registry/pods/default/%08x", uint32(i)*2654435761)
			}
		},
		"large values": func(s *Store) {
			for i := range 1000 {
				put(s, 0, 10_000, "key-%08d", i)
			}
		},
		"history of one key": func(s *Store) {
			for range n {
				put(s, 0, 20, "k")
			}
		},
		"deleted keys": func(s *Store) {
			for i := range n {
				put(s, 0, 8, "key-%08d", i)
			}
			if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("k"), RangeEnd: []byte("l")}); err != nil {
				t.Fatal(err)
			}
		},
		"leases": func(s *Store) {
			for i := range n {
				grant(s, int64(i)*7919+1)
			}
		},
		"leases with a key each": func(s *Store) {
			for i := range n {
				grant(s, int64(i)+1)
				put(s, int64(i)+1, 8, "lock/%08d", i)
			}
		},
		"one lease with all keys": func(s *Store) {
			grant(s, 7)
			for i := range n {
				put(s, 7, 8, "key-%08d", i)
			}
		},
		"a lease that has ended": func(s *Store) {
			grant(s, 7)
			for i := range n {
				put(s, 7, 8, "key-%08d", i)
			}
			for i := range n / 2 { // some are untied, some deleted
				put(s, 0, 8, "key-%08d", 2*i)
			}
			if err := s.Revoke(7); err != nil {
				t.Fatal(err)
			}
			put(s, 0, 8, "k") // the events of the compact revision stay
			if err := s.Compact(s.Revision()); err != nil {
				t.Fatal(err)
			}
			for s.Reclaim(1000) {
			}
		},
		"compacted": func(s *Store) {
			for i := range 3 * n {
				put(s, 0, 50, "key-%08d", i%n)
			}
			if err := s.Compact(s.Revision()); err != nil {
				t.Fatal(err)
			}
			for s.Reclaim(1000) {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			s := New()
			fill(s)
			stats := s.View().Stats()
			real, counted := int64(heap()-before), stats.Bytes
			runtime.KeepAlive(s)
			t.Logf("%d bytes of heap, counted as %d: %.2f", real, counted, float64(counted)/float64(real))
			if counted < real*8/10 || counted > real*12/10 {
				t.Errorf("%d bytes of heap are counted as %d", real, counted)
			}
			if strings.HasPrefix(name, "compacted") && stats.History > counted/100 {
				t.Errorf("of a state that was compacted %d bytes of %d are history", stats.History, counted)
			}
		})
	}
}
