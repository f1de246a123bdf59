package watch

import (
	"context"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Watchers that are judged away get no more events, and are told why, synced or late; the others go on.
func TestJudge(t *testing.T) {
	store := kv.New()
	put := func(h *Hub, keys ...string) {
		t.Helper()
		for _, k := range keys {
			if _, err := store.Put(&pb.PutRequest{Key: []byte(k)}); err != nil {
				t.Fatal(err)
			}
		}
		h.Publish(store.View())
	}
	h := NewHub(store.View(), Config{})
	defer h.Close()
	put(h, "a", "b")
	s := h.NewStream(0)
	defer s.Close()
	ctx := t.Context()
	for i, r := range []*pb.WatchCreateRequest{
		{Key: []byte("a")}, {Key: []byte("b"), RangeEnd: []byte("c")}, {Key: []byte("c"), RangeEnd: []byte{0}}, {RangeEnd: []byte{0}, StartRevision: 2},
	} {
		r.WatchId = int64(i + 1)
		if err := s.Create(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Refuse(ctx, "no"); err != nil {
		t.Fatal(err)
	}
	next := func() Response {
		t.Helper()
		r, err := s.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	late := 0 // events of the watcher that begins in the past
	for answers := 0; answers < 5; {
		r := next()
		if !r.Created {
			late += len(r.Events)
			continue
		}
		if answers++; r.Canceled != (answers == 5) || r.Canceled && (r.CancelReason != "no" || r.WatchID != invalidID) {
			t.Errorf("answer %d: %+v, want that the fifth is refused", answers, r)
		}
	}
	for late < 2 {
		late += len(next().Events)
	}
	var judged []string
	ids := s.Judge(func(key, end []byte) string {
		judged = append(judged, string(key)+"-"+string(end))
		if string(key) == "a" || string(key) == "\x00" {
			return ""
		}
		return "not any more"
	})
	slices.Sort(judged)
	slices.Sort(ids)
	if want := []string{"\x00-\x00", "a-", "b-c", "c-\x00"}; !slices.Equal(judged, want) || !slices.Equal(ids, []int64{2, 3}) {
		t.Errorf("judged %q and expelled %v, want %q, and 2 and 3", judged, ids, want)
	}
	put(h, "a", "b", "c")
	told := map[int64]int{}
	for told[1] == 0 || told[4] < 3 || told[2] == 0 || told[3] == 0 {
		r := next()
		switch {
		case r.WatchID == 2 || r.WatchID == 3:
			if told[r.WatchID]++; !r.Canceled || r.Created || r.CancelReason != "not any more" || told[r.WatchID] > 1 {
				t.Fatalf("after the judgement: %+v, want only that it is canceled", r)
			}
		default:
			told[r.WatchID] += len(r.Events)
		}
	}
	if st := h.Stats(); st.Watchers != 2 {
		t.Errorf("%d watchers after the judgement, want 2", st.Watchers)
	}
	// One of the two is canceled while they are judged: its client is told of that, and of nothing else.
	again := s.Judge(func(key, _ []byte) string {
		if string(key) == "a" {
			return "all"
		}
		if err := s.Cancel(t.Context(), 4); err != nil {
			t.Error(err)
		}
		return "gone by now"
	})
	if want := []int64{1}; !slices.Equal(again, want) {
		t.Errorf("expelled %v, want %v: the other was canceled before", again, want)
	}
}

// A stream that waits is told to judge once for each time that rights have changed, and no stream that began
// after that.
func TestRejudge(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.hub.NewStream(0)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // one that is told nothing fails
	defer cancel()
	for range 3 {
		w.hub.Rejudge()
		if r, err := s.Next(ctx); err != nil || !r.Judge || r.WatchID != invalidID {
			t.Errorf("got %+v, %v; want to be told to judge", r, err)
		}
	}
	later := w.hub.NewStream(0)
	defer later.Close()
	for _, s := range []*Stream{s, later} {
		select {
		case <-s.rights:
			t.Error("nothing has changed, and a stream is told to judge")
		default:
		}
	}
}
