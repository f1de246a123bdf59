package kv

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"pgregory.net/rapid"
)

// TestKeySet compares a set and its old copies with maps.
func TestKeySet(t *testing.T) {
	var items []*item
	for i := range 12 {
		it := new(item)
		it.head.Store(&version{kv: mvccpb.KeyValue{Key: fmt.Appendf(nil, "key/%02d", i)}})
		items = append(items, it)
	}
	type generation struct {
		set  keySet
		want map[string]bool
	}
	rapid.Check(t, func(t *rapid.T) {
		now := generation{want: map[string]bool{}}
		var past []generation
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				it := rapid.SampledFrom(items).Draw(t, "item")
				now.set.add(it)
				now.want[string(it.key())] = true
			},
			"remove": func(t *rapid.T) {
				it := rapid.SampledFrom(items).Draw(t, "item")
				now.set.remove(it)
				delete(now.want, string(it.key()))
			},
			"copy": func(*rapid.T) {
				past = append(past, generation{now.set, maps.Clone(now.want)})
				now.set = now.set.copy()
			},
			"": func(t *rapid.T) {
				for _, g := range append(past, now) {
					var got []string
					g.set.scan(func(it *item) bool {
						got = append(got, string(it.key()))
						return true
					})
					if want := slices.Sorted(maps.Keys(g.want)); !slices.Equal(got, want) || g.set.len() != len(want) {
						t.Fatalf("%q (%d), want %q", got, g.set.len(), want)
					}
				}
			},
		})
	})
}

// TestLeaseOfManyKeys: they are all there, in order, and end in one revision.
func TestLeaseOfManyKeys(t *testing.T) {
	const n = 2500
	s := New()
	if err := s.Grant(1, 60); err != nil {
		t.Fatal(err)
	}
	var want [][]byte
	for i := range n {
		key := fmt.Sprintf("key/%04d", (i*7919)%n) // not in order
		mustPut(t, s, key, "v", 1)
		want = append(want, []byte(key))
		if i%100 == 0 {
			s.View() // so that sets are copied on the way
		}
	}
	slices.SortFunc(want, bytes.Compare)
	full, rev := s.View(), s.Revision()
	pauses := 0
	s.Pause = func() { pauses++ }
	if err := s.Revoke(1); err != nil {
		t.Fatal(err)
	}
	if s.Revision() != rev+1 {
		t.Errorf("revision %d after %d, want one more", s.Revision(), rev)
	}
	if pauses != n/pauseEvery {
		t.Errorf("%d pauses, want %d", pauses, n/pauseEvery)
	}
	if got := full.LeaseKeys(1); !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("the view from before has %d keys, want %d", len(got), n)
	}
	events, err := s.View().Events(rev + 1)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for e := range events {
		if e.Type != mvccpb.Event_DELETE || e.KV.ModRevision != rev+1 {
			t.Fatalf("event %v %v", e.Type, e.KV)
		}
		got = append(got, e.KV.Key)
	}
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d deletions, not those of the keys in order", len(got))
	}
	if st := s.View().Stats(); st.Keys != 0 || st.Leases != 0 {
		t.Errorf("stats %+v, want no keys and no leases", st)
	}
}

// A put names an existing lease, whatever its sign. That is checked before the put of a missing key is
// refused. A key with a lease that does not exist would make the state one that no member can restore.
func TestAPutNeedsItsLease(t *testing.T) {
	for _, id := range []int64{7, -7, math.MaxInt64, math.MinInt64} {
		s := New()
		mustPut(t, s, "k", "v", 0)
		before := snapshot(t, s.View())
		for what, r := range map[string]*pb.PutRequest{
			"a new key":              {Key: []byte("n"), Lease: id},
			"a key":                  {Key: []byte("k"), Lease: id},
			"a key, its value kept":  {Key: []byte("k"), Lease: id, IgnoreValue: true},
			"no key, its value kept": {Key: []byte("n"), Lease: id, IgnoreValue: true},
		} {
			if _, err := s.Put(r); err != ErrLeaseNotFound {
				t.Errorf("%s is put with lease %d, which there is not: %v, want %v", what, id, err, ErrLeaseNotFound)
			}
			op := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}}
			if _, err := s.Txn(then(op)); err != ErrLeaseNotFound {
				t.Errorf("%s is put in a transaction with lease %d, which there is not: %v, want %v", what, id, err, ErrLeaseNotFound)
			}
		}
		if !bytes.Equal(snapshot(t, s.View()), before) {
			t.Errorf("puts with lease %d were refused, and the state is another", id)
		}
		if err := s.Grant(id, 60); err != nil {
			t.Fatal(err)
		}
		mustPut(t, s, "k", "v", id)
		read, err := Read(bytes.NewReader(snapshot(t, s.View())))
		if err != nil {
			t.Fatalf("with lease %d: %v", id, err)
		}
		for _, s := range []*Store{s, read} {
			if got := s.View().LeaseKeys(id); len(got) != 1 || string(got[0]) != "k" {
				t.Errorf("lease %d has the keys %q, want k", id, got)
			}
		}
	}
}

// A lease ends with all its keys when no view was taken since they were put, too.
func TestRevokeOfALeaseThatNobodyHasSeen(t *testing.T) {
	for n := 1; n <= 100; n++ {
		s := New()
		if err := s.Grant(1, 60); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			mustPut(t, s, fmt.Sprintf("key/%02d", i), "v", 1)
		}
		if err := s.Revoke(1); err != nil {
			t.Fatal(err)
		}
		if st := s.View().Stats(); st.Keys != 0 || st.Versions != int64(2*n) {
			t.Errorf("a lease of %d keys was revoked: %+v, want no keys, and a deletion of each", n, st)
		}
	}
}
