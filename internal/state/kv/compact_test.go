package kv

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestReclaimGivesBackEverything: after all is deleted and compacted only the
// events of the compact revision are left, and the estimate of bytes is back to
// where it was.
func TestReclaimGivesBackEverything(t *testing.T) {
	s := New()
	const n = 3000
	for i := range n {
		mustPut(t, s, fmt.Sprintf("key/%d", i%100), "a value", 0)
	}
	full := s.View().Stats()
	if full.Versions != n || full.Keys != 100 {
		t.Fatalf("stats %+v, want %d versions of 100 keys", full, n)
	}
	if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("key/"), RangeEnd: []byte("key0")}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "last", "", 0)
	if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("last")}); err != nil {
		t.Fatal(err)
	}
	s.View() // so that the removed keys have to be published
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for s.Reclaim(500) {
		calls++
	}
	if calls != (n+102)/500 {
		t.Errorf("%d calls of Reclaim had more to do, want %d", calls, (n+102)/500)
	}
	if got := s.View().Stats(); got != (Stats{}) {
		t.Errorf("stats %+v, want zeros", got)
	}
	if got := len(s.log.chunks); got != 1 {
		t.Errorf("%d chunks of events are left, want 1", got)
	}
	if got := s.View().keys.Len(); got != 0 {
		t.Errorf("%d keys are left in the tree that is published", got)
	}
	events, err := s.View().Events(s.Revision())
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if string(e.KV.Key) != "last" || e.KV.ModRevision != s.Revision() {
			t.Errorf("event %v, want the last deletion", e.KV)
		}
	}
}

// TestReclaimLeavesOldViewsTheirEvents: chunks that the store drops stay with the
// views that have them.
func TestReclaimLeavesOldViewsTheirEvents(t *testing.T) {
	s := New()
	for i := range 5 * chunkSize {
		mustPut(t, s, "k", fmt.Sprint(i), 0)
		if i%chunkSize == 17 {
			v, want := s.View(), i+1
			if err := s.Compact(s.Revision()); err != nil {
				t.Fatal(err)
			}
			for s.Reclaim(10) {
			}
			events, err := v.Events(max(v.CompactRevision(), 2))
			if err != nil {
				t.Fatal(err)
			}
			if v.CompactRevision() > 0 {
				want = chunkSize + 1
			}
			got := 0
			for range events {
				got++
			}
			if got != want {
				t.Errorf("at revision %d: %d events, want %d", v.Revision(), got, want)
			}
		}
	}
}

// TestReclaimTellsBeforeItCuts: a reader beside it gets what was there, or an error.
func TestReclaimTellsBeforeItCuts(t *testing.T) {
	for range 5 {
		s := New()
		mustPut(t, s, "k", "first", 0)
		v := s.View()
		mustPut(t, s, "k", "second", 0)
		for range 100_000 {
			mustPut(t, s, "other", "v", 0)
		}
		if err := s.Compact(s.Revision()); err != nil {
			t.Fatal(err)
		}
		reading := make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() {
			for reads := 0; ; reads++ {
				resp, err := v.Range(&pb.RangeRequest{Key: []byte("k")})
				if err == nil && (len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "first") {
					t.Errorf("read beside Reclaim: %v, want the first value or an error", resp)
				}
				if reads == 0 {
					close(reading)
				}
				if err != nil || t.Failed() {
					return
				}
			}
		})
		<-reading
		s.Reclaim(1 << 20)
		reader.Wait()
		if _, err := v.Range(&pb.RangeRequest{Key: []byte("k")}); !errors.Is(err, ErrStaleView) {
			t.Errorf("read after Reclaim: %v, want %v", err, ErrStaleView)
		}
	}
}

// TestReclaimKeepsEventsOfTheCompactRevision, also when they end a chunk.
func TestReclaimKeepsEventsOfTheCompactRevision(t *testing.T) {
	s := New()
	for i := range chunkSize + 1 {
		mustPut(t, s, "k", fmt.Sprint(i), 0)
	}
	if err := s.Compact(s.Revision() - 1); err != nil {
		t.Fatal(err)
	}
	for s.Reclaim(10) {
	}
	events, err := s.View().Events(s.CompactRevision())
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for range events {
		got++
	}
	if got != 2 {
		t.Errorf("%d events from the compact revision on, want 2", got)
	}
}

// TestPinsHoldTheOldest: several pins, released out of order.
func TestPinsHoldTheOldest(t *testing.T) {
	s := New()
	put := func() {
		for range 10 {
			mustPut(t, s, "k", "v", 0)
		}
	}
	compact := func() {
		if err := s.Compact(s.Revision()); err != nil {
			t.Fatal(err)
		}
		for s.Reclaim(3) {
		}
	}
	put()
	_, releaseA := s.Pin()
	put()
	compact() // to 21, held by A
	_, releaseB := s.Pin()
	put()
	compact() // to 31, held by A and B
	steps := []struct {
		name string
		do   func()
		want int64 // versions
	}{
		{"both pinned", func() {}, 30},
		{"the older released", releaseA, 11}, // from revision 21 on
		{"released again", releaseA, 11},
		{"all released", releaseB, 1},
	}
	for _, step := range steps {
		step.do()
		for s.Reclaim(3) {
		}
		if got := s.View().Stats().Versions; got != step.want {
			t.Errorf("%s: %d versions, want %d", step.name, got, step.want)
		}
	}
}

// TestViewsShareUntilKeysMove: publishing is free while keys are only updated.
func TestViewsShareUntilKeysMove(t *testing.T) {
	s := New()
	mustPut(t, s, "k", "1", 0)
	a := s.View()
	mustPut(t, s, "k", "2", 0)
	b := s.View()
	if a.keys != b.keys {
		t.Error("an update made the view copy the tree")
	}
	mustPut(t, s, "new", "1", 0)
	if c := s.View(); c.keys == b.keys {
		t.Error("a created key is missing from the view's tree")
	}
	if a.leases != b.leases {
		t.Error("an update without a lease made the view copy the lease table")
	}
}

// A view of which something is reclaimed says so, from the first revision on that it lacks.
func TestViewOfWhatWasReclaimed(t *testing.T) {
	s := New()
	put := func() View {
		if _, err := s.Put(&pb.PutRequest{Key: []byte("a")}); err != nil {
			t.Fatal(err)
		}
		return s.View()
	}
	before, last := put(), put() // 2, 3
	if err := s.Compact(3); err != nil {
		t.Fatal(err)
	}
	for s.Reclaim(1000) {
	}
	if _, err := before.Range(&pb.RangeRequest{Key: []byte("a")}); !errors.Is(err, ErrStaleView) {
		t.Errorf("a view of revision 2 behind a compaction to 3: %v, want %v", err, ErrStaleView)
	}
	if _, err := last.Range(&pb.RangeRequest{Key: []byte("a")}); err != nil {
		t.Errorf("a view of revision 3 behind a compaction to 3: %v", err)
	}
	old := []*pb.RequestOp{rangeOp(&pb.RangeRequest{Key: []byte("a"), Revision: 2})}
	for name, tt := range map[string]struct {
		ops  *pb.TxnRequest
		want error
	}{
		"reads revision 2":                             {then(old...), ErrCompacted},
		"reads revision 2 in a nested one":             {then(either(old, nil)), ErrCompacted},
		"reads revision 2 in one that is nested twice": {then(either([]*pb.RequestOp{either(old, nil)}, nil)), ErrCompacted},
		"would read revision 2 in the other branch":    {then(either(nil, old)), nil},
	} {
		if _, err := last.Txn(tt.ops); !errors.Is(err, tt.want) {
			t.Errorf("a transaction that %s behind a compaction to 3: %v, want %v", name, err, tt.want)
		}
	}
}

// TestReclaimFreesEvents: the events that the store drops are garbage, and not kept by what is left.
func TestReclaimFreesEvents(t *testing.T) {
	s := New()
	for i := range 5 * chunkSize {
		mustPut(t, s, fmt.Sprintf("key/%d", i%100), "a value", 0)
	}
	freed := make(chan struct{})
	runtime.AddCleanup(s.log.chunks[0], func(freed chan struct{}) { close(freed) }, freed)
	if err := s.Compact(s.Revision()); err != nil {
		t.Fatal(err)
	}
	for s.Reclaim(500) {
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(s)
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("events that were dropped are still in memory")
		}
	}
}

// Versions that a compaction supersedes are no longer referred to, except those visible at
// its revision.
func TestReclaimCutsWhatIsSuperseded(t *testing.T) {
	s := New()
	for range 4 {
		mustPut(t, s, "k", "v", 0) // revisions 2 to 5
	}
	if err := s.Compact(4); err != nil {
		t.Fatal(err)
	}
	for s.Reclaim(1) {
	}
	it, _ := s.keys.Get("k")
	var got []int64
	for v := it.head.Load(); v != nil; v = v.prev.Load() {
		got = append(got, v.kv.ModRevision)
	}
	if !slices.Equal(got, []int64{5, 4}) {
		t.Errorf("behind a compaction to 4 a key has the versions of %v, want those of 5 and 4", got)
	}
}

// What a later compaction supersedes is given back, too, though chunks of events have been
// dropped since the first.
func TestReclaimAgainAndAgain(t *testing.T) {
	s := New()
	for round := range 4 {
		for range 1 + round*3*chunkSize {
			mustPut(t, s, "k", "v", 0)
		}
		if err := s.Compact(s.Revision()); err != nil {
			t.Fatal(err)
		}
		for s.Reclaim(100) {
		}
		if got := s.View().Stats().Versions; got != 1 {
			t.Errorf("behind compaction %d a key has %d versions, want the one that is visible", round+1, got)
		}
	}
}

// A view that is pinned is of all that happened before, published or not.
func TestPinIsOfNow(t *testing.T) {
	s := New()
	mustPut(t, s, "k", "published", 0)
	s.View()
	mustPut(t, s, "k", "and not", 0)
	mustPut(t, s, "new", "", 0)
	v, release := s.Pin()
	defer release()
	resp, err := v.Range(&pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("\x00")})
	if err != nil || v.Revision() != 4 || len(resp.Kvs) != 2 || string(resp.Kvs[0].Value) != "and not" {
		t.Errorf("pinned at revision 4, a view of revision %d shows %v, %v", v.Revision(), resp, err)
	}
}
