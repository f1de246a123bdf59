package watch

import (
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// take delivers what is queued, as far as it is no response, and returns the
// responses. Late watchers stay late.
func take(s *Stream) (responses []string) {
	s.mu.Lock()
	var items []item
	for !s.queue.empty() {
		items = append(items, s.queue.pop())
	}
	s.mu.Unlock()
	for _, it := range items {
		if r, ok := s.deliver(it); ok {
			responses = append(responses, short(r))
		}
	}
	return responses
}

func TestHubGoesOnDuringCatchUp(t *testing.T) {
	w := newWorld(t, Config{})
	w.put("a")
	s := w.stream()
	create(t, s, watch("a", "", 2))
	take(s)
	// The reader has come to revision 2 when the hub hands out revision 3.
	view := w.hub.view.Load()
	log, err := view.Events(2)
	if err != nil {
		t.Fatal(err)
	}
	upto := s.read(view, log)
	w.put("a")
	w.settle()
	s.join(upto)
	if s.late.count != 1 {
		t.Errorf("%d watchers late, want the one that has not got revision 3", s.late.count)
	}
	s.late.all(func(w *watcher) { w.next = upto + 1 })
	want(t, s, "0:put a@2", "0:put a@3")
	w.put("a")
	want(t, s, "0:put a@4")
}

func TestCompactionEndsOnlyWhomItConcerns(t *testing.T) {
	w := newWorld(t, Config{})
	w.put("a", "a", "a", "a") // 2..5
	s := w.stream()
	create(t, s, watch("a", "", 3))
	create(t, s, watch("a", "", 4))
	take(s)
	w.compact(4)
	want(t, s, "0:compacted 4", "1:put a@4,put a@5")
	quiet(t, w, s)
}

func TestCancelWhileLate(t *testing.T) {
	w := newWorld(t, Config{ChunkEvents: 1, ChunkBytes: 1})
	w.put("a", "a", "a", "a") // 2..5
	s := w.stream()
	create(t, s, watch("a", "", 2))
	want(t, s, "0:created@5", "0:put a@2")
	if err := s.Cancel(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var got []string
	for !slices.Contains(got, "0:canceled") {
		got = append(got, next(t, s))
	}
	if s.late.count != 0 {
		t.Errorf("%d watchers late after the cancellation, want none", s.late.count)
	}
	w.put("a")
	quiet(t, w, s)
}

// The log may be ahead of the hub when a watcher catches up with it.
func TestProgressIsNotBehindWhatCaughtUp(t *testing.T) {
	w := newWorld(t, Config{})
	put := func() { // published, and the hub does not wake
		_, err := w.store.Put(&pb.PutRequest{Key: []byte("a")})
		w.check(err)
		view := w.store.View()
		w.hub.view.Store(&view)
	}
	put()
	s := w.stream()
	create(t, s, watch("a", "", 2))
	take(s)
	ask(t, s)
	put()
	want(t, s, "0:put a@2,put a@3", "-1:progress@3")
}

// A watcher that has read some of the log, and not all, is still behind.
func TestProgressWaitsForTheLog(t *testing.T) {
	w := newWorld(t, Config{ChunkEvents: 1, ChunkBytes: 1})
	w.put("a", "a", "a") // 2..4
	s := w.stream()
	create(t, s, watch("a", "", 2))
	ask(t, s)
	want(t, s, "0:created@4", "0:put a@2", "0:put a@3", "0:put a@4", "-1:progress@4")
}

// A stream reads as many events at a time as it may.
func TestChunkIsFull(t *testing.T) {
	w := newWorld(t, Config{ChunkEvents: 10})
	for range 25 {
		w.put("a")
	}
	s := w.stream()
	create(t, s, watch("a", "", 2))
	want(t, s, "0:created@26")
	for _, n := range []int{10, 10, 5} {
		r, err := s.Next(t.Context())
		if err != nil || len(r.Events) != n {
			t.Errorf("a chunk of %d events, %v; want %d", len(r.Events), err, n)
		}
	}
	quiet(t, w, s)
}

// A stream reads about as many bytes at a time as it may, whatever the number of events.
func TestChunkIsFullOfBytes(t *testing.T) {
	w := newWorld(t, Config{ChunkBytes: 3 * (eventOverhead + len("a") + len("v2"))})
	for range 8 {
		w.put("a")
	}
	s := w.stream()
	create(t, s, watch("a", "", 2))
	want(t, s, "0:created@9")
	for _, n := range []int{3, 3, 2} {
		r, err := s.Next(t.Context())
		if err != nil || len(r.Events) != n {
			t.Fatalf("a chunk of %d events, %v; want %d by their bytes", len(r.Events), err, n)
		}
	}
	quiet(t, w, s)
}

// The hub hands out a chunk at a time: what fits on the queue is there, though what was published
// with it does not fit.
func TestHubHandsOutAChunkAtATime(t *testing.T) {
	w := newWorld(t, Config{ChunkEvents: 2, MaxStreamEvents: 2})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	want(t, s, "0:created@1")
	w.put("a", "a", "a") // published at once
	w.settle()
	if got := w.hub.Stats(); s.queue.events != 2 || got.Behind != 1 {
		t.Errorf("%d events are queued and %d watchers behind, want the two that fit and one", s.queue.events, got.Behind)
	}
	want(t, s, "0:put a@2,put a@3", "0:put a@4")
}

// The end of a watch by a compaction is of the revision that is published, though the hub has yet
// to come to it: one that begins anew behind that misses nothing.
func TestTheEndByACompactionIsOfWhatIsPublished(t *testing.T) {
	w := newWorld(t, Config{})
	w.put("a", "a", "a", "a") // 2..5
	s := w.stream()
	create(t, s, watch("a", "", 2))
	take(s)
	_, err := w.store.Put(&pb.PutRequest{Key: []byte("a")})
	w.check(err)
	w.check(w.store.Compact(4))
	view := w.store.View()
	w.hub.view.Store(&view) // and the hub does not wake
	r := response(t, s)
	if !r.Canceled || r.CompactRevision != 4 || r.Revision != 6 {
		t.Errorf("at revision 6, compacted at 4, it ends by %+v", r)
	}
}
