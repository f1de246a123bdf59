package watch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a store and a hub that follows it. One goroutine changes it.
type world struct {
	t     testing.TB
	store *kv.Store
	hub   *Hub
}

func newWorld(t testing.TB, c Config) *world {
	store := kv.New()
	w := &world{t: t, store: store, hub: NewHub(store.View(), c)}
	t.Cleanup(w.hub.Close)
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// put writes keys, one revision each, and publishes.
func (w *world) put(keys ...string) {
	w.t.Helper()
	for _, k := range keys {
		_, err := w.store.Put(&pb.PutRequest{Key: []byte(k), Value: []byte(fmt.Sprint("v", w.store.Revision()+1))})
		w.check(err)
	}
	w.hub.Publish(w.store.View())
}

// txn writes keys in one revision and publishes.
func (w *world) txn(keys ...string) {
	w.t.Helper()
	r := &pb.TxnRequest{}
	for _, k := range keys {
		r.Success = append(r.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: []byte(k), Value: []byte("txn")},
		}})
	}
	_, err := w.store.Txn(r)
	w.check(err)
	w.hub.Publish(w.store.View())
}

// del deletes keys, one revision each, and publishes.
func (w *world) del(keys ...string) {
	w.t.Helper()
	for _, k := range keys {
		_, err := w.store.DeleteRange(&pb.DeleteRangeRequest{Key: []byte(k)})
		w.check(err)
	}
	w.hub.Publish(w.store.View())
}

func (w *world) compact(rev int64) {
	w.t.Helper()
	w.check(w.store.Compact(rev))
	for w.store.Reclaim(1000) {
	}
	w.hub.Publish(w.store.View())
}

// settle waits until the hub has handed out all that is published.
func (w *world) settle() {
	w.hub.mu.Lock()
	w.hub.dispatch()
	w.hub.mu.Unlock()
}

func (w *world) stream() *Stream {
	s := w.hub.NewStream(0)
	w.t.Cleanup(s.Close)
	return s
}

func create(t testing.TB, s *Stream, r *pb.WatchCreateRequest) {
	t.Helper()
	if err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// watch is the request of a watch of [key, end) from a revision.
func watch(key, end string, start int64) *pb.WatchCreateRequest {
	return &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end), StartRevision: start}
}

// next returns the next response in short: "7:created@1", "7:put a@2,del a@3",
// "-1:progress@5", "7:compacted 4", "-1:refused reason", "7:canceled".
func next(t testing.TB, s *Stream) string {
	t.Helper()
	return short(response(t, s))
}

// response returns the next response. It fails once nothing is left from which one could come.
func response(t testing.TB, s *Stream) Response {
	t.Helper()
	r, err := try(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func try(t testing.TB, s *Stream) (Response, error) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	begun := time.Now()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Millisecond):
				if starved(s) && time.Since(begun) >= 4*s.progress {
					cancel(errors.New("no response comes"))
				}
			}
		}
	}()
	return s.Next(ctx)
}

// starved reports whether Next waits in vain, but for a report of progress that comes by itself:
// it found nothing, and the hub has handed out all that is published.
func starved(s *Stream) bool {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle && h.at == h.view.Load().Revision()
}

func short(r Response) string {
	id := fmt.Sprint(r.WatchID, ":")
	switch {
	case r.Created && r.Canceled:
		return id + "refused " + r.CancelReason
	case r.Created:
		return fmt.Sprint(id, "created@", r.Revision)
	case r.CompactRevision != 0:
		return fmt.Sprint(id, "compacted ", r.CompactRevision)
	case r.Canceled:
		return id + "canceled"
	case len(r.Events) == 0:
		return fmt.Sprint(id, "progress@", r.Revision)
	}
	s := id
	for i, e := range r.Events {
		if i > 0 {
			s += ","
		}
		verb := "put "
		if e.Type != 0 {
			verb = "del "
		}
		s += fmt.Sprint(verb, string(e.KV.Key), "@", e.KV.ModRevision)
	}
	return s
}

// want checks the next responses.
func want(t testing.TB, s *Stream, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if got := next(t, s); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// quiet checks that nothing waits on the stream.
func quiet(t testing.TB, w *world, s *Stream) {
	t.Helper()
	w.settle()
	for {
		s.mu.Lock()
		waits, behind := !s.queue.empty(), s.behind
		s.mu.Unlock()
		if !waits && behind == 0 && len(s.pending) == 0 {
			return
		}
		r, err := try(t, s)
		if err != nil {
			t.Fatalf("%d watchers are behind: %v", behind, err)
		}
		t.Fatalf("unexpected response %q", short(r))
	}
}
