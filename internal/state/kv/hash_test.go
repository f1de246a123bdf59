package kv

import (
	"bytes"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func hash(t testing.TB, v View, rev int64) uint32 {
	t.Helper()
	sum, _, err := v.Hash(rev)
	if err != nil {
		t.Fatalf("hash at revision %d: %v", rev, err)
	}
	return sum
}

// TestHashAtARevision: a hash is one of the keys and their history up to its revision, and of
// nothing else.
func TestHashAtARevision(t *testing.T) {
	s := richStore(t)
	now := s.Revision()
	at := map[int64]uint32{}
	for rev := s.CompactRevision(); rev <= now; rev++ {
		at[rev] = hash(t, s.View(), rev)
	}
	seen := map[uint32]int64{}
	for rev, sum := range at {
		if other, twice := seen[sum]; twice {
			t.Errorf("revisions %d and %d have one hash", rev, other)
		}
		seen[sum] = rev
	}
	if sum, rev, err := s.View().Hash(0); sum != at[now] || rev != now || err != nil {
		t.Errorf("at revision 0: %x, %d, %v; want that of %d, %x", sum, rev, err, now, at[now])
	}
	mustPut(t, s, "later", "x", 0)
	if err := s.Grant(99, 10); err != nil {
		t.Fatal(err)
	}
	for s.Reclaim(1) {
	}
	for rev, sum := range at {
		if got := hash(t, s.View(), rev); got != sum {
			t.Errorf("revision %d, later: hash %x, was %x", rev, got, sum)
		}
	}
	again, err := Read(bytes.NewReader(snapshot(t, s.View())))
	if err != nil {
		t.Fatal(err)
	}
	for rev, sum := range at {
		if got := hash(t, again.View(), rev); got != sum {
			t.Errorf("revision %d, from a snapshot: hash %x, was %x", rev, got, sum)
		}
	}
}

// TestHashOfDifferentStates: everything that a key shows is in the hash.
func TestHashOfDifferentStates(t *testing.T) {
	seen := map[uint32]string{}
	for name, change := range map[string]func(*Store){
		"a key":           func(s *Store) { mustPut(t, s, "a", "1", 0) },
		"another key":     func(s *Store) { mustPut(t, s, "b", "1", 0) },
		"another value":   func(s *Store) { mustPut(t, s, "a", "2", 0) },
		"with a lease":    func(s *Store) { mustPut(t, s, "a", "1", 7) },
		"later":           func(s *Store) { mustPut(t, s, "a", "1", 0); mustPut(t, s, "a", "1", 0) },
		"and deleted":     func(s *Store) { mustPut(t, s, "a", "1", 0); mustDelete(t, s, "a") },
		"and there again": func(s *Store) { mustPut(t, s, "a", "1", 0); mustDelete(t, s, "a"); mustPut(t, s, "a", "1", 0) },
	} {
		s := New()
		if err := s.Grant(7, 60); err != nil {
			t.Fatal(err)
		}
		change(s)
		sum := hash(t, s.View(), 0)
		if other, same := seen[sum]; same {
			t.Errorf("%q and %q have one hash", name, other)
		}
		seen[sum] = name
	}
}

func mustDelete(t testing.TB, s *Store, key string) {
	t.Helper()
	if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte(key)}); err != nil {
		t.Fatal(err)
	}
}

// TestHashOfAll: leases, and what remains of them, are in the hash of all.
func TestHashOfAll(t *testing.T) {
	s := richStore(t)
	seen := map[uint32]string{}
	look := func(when string) {
		sum, err := s.View().HashAll()
		if err != nil {
			t.Fatal(err)
		}
		if other, same := seen[sum]; same {
			t.Errorf("%q and %q have one hash of all", when, other)
		}
		seen[sum] = when
	}
	look("at first")
	mustPut(t, s, "later", "x", 0)
	look("with one more key")
	if err := s.Grant(99, 10); err != nil {
		t.Fatal(err)
	}
	look("with one more lease")
	if err := s.Checkpoint(99, 3000); err != nil {
		t.Fatal(err)
	}
	look("with less time left")
}

func TestHashOfWhatIsNotThere(t *testing.T) {
	s := richStore(t) // compacted at 5
	old := s.View()
	for rev, want := range map[int64]error{-1: ErrCompacted, 4: ErrCompacted, s.Revision() + 1: ErrFutureRevision} {
		if _, _, err := old.Hash(rev); !errors.Is(err, want) {
			t.Errorf("hash at revision %d: error %v, want %v", rev, err, want)
		}
	}
	if _, _, err := (View{}).Hash(0); !errors.Is(err, ErrNoState) {
		t.Errorf("hash of no state: error %v", err)
	}
	if _, err := (View{}).HashAll(); !errors.Is(err, ErrNoState) {
		t.Errorf("hash of all of no state: error %v", err)
	}
	mustPut(t, s, "later", "x", 0)
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
	for s.Reclaim(100) {
	}
	if _, _, err := old.Hash(0); !errors.Is(err, ErrStaleView) {
		t.Errorf("hash of a view whose history is reclaimed: error %v", err)
	}
	if _, err := old.HashAll(); !errors.Is(err, ErrStaleView) {
		t.Errorf("hash of all of a view whose history is reclaimed: error %v", err)
	}
}

// TestHeldHistoryStays: what a view shows is not reclaimed while the view is held.
func TestHeldHistoryStays(t *testing.T) {
	s := richStore(t)
	old := s.View()
	want := snapshot(t, old)
	mustPut(t, s, "later", "x", 0)
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
	release, ok := s.Hold(old)
	if !ok {
		t.Fatal("a view whose history is there cannot be held")
	}
	for s.Reclaim(100) {
	}
	if old.Stale() {
		t.Error("the history of a held view is reclaimed")
	}
	if got := snapshot(t, old); !bytes.Equal(got, want) {
		t.Errorf("a held view writes\n%x, was\n%x", got, want)
	}
	release()
	for s.Reclaim(100) {
	}
	if _, ok := s.Hold(old); ok {
		t.Error("a view whose history is reclaimed can be held")
	}
}
