package watch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

func TestRanges(t *testing.T) {
	for _, c := range []struct{ name, key, end, want string }{
		{"key", "b", "", "0:put b@3"},
		{"range", "b", "d", "0:put b@3,put c@4"},
		{"from key", "b", "\x00", "0:put b@3,put c@4,put d@5"},
		{"all", "\x00", "\x00", "0:put a@2,put b@3,put c@4,put d@5"},
		{"no key", "", "c", "0:put a@2,put b@3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{})
			live := w.stream()
			create(t, live, watch(c.key, c.end, 0))
			want(t, live, "0:created@1")
			w.put("a", "b", "c", "d")
			want(t, live, c.want)
			quiet(t, w, live)

			past := w.stream()
			create(t, past, watch(c.key, c.end, 1))
			want(t, past, "0:created@5", c.want)
			w.put("zz")
			if c.name == "from key" || c.name == "all" {
				want(t, past, "0:put zz@6")
			}
			w.del("b")
			want(t, past, "0:del b@7")
		})
	}
}

func TestStartRevisions(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	w.put("a", "a") // 2, 3
	create(t, s, watch("a", "", 3))
	want(t, s, "0:created@3", "0:put a@3")
	create(t, s, watch("a", "", 6)) // of the future
	want(t, s, "1:created@3")
	create(t, s, watch("a", "", 0))
	want(t, s, "2:created@3")
	w.put("a")
	want(t, s, "0:put a@4", "2:put a@4")
	w.put("a")
	want(t, s, "0:put a@5", "2:put a@5")
	w.put("a")
	want(t, s, "0:put a@6", "1:put a@6", "2:put a@6")
	create(t, s, watch("a", "", -1))
	want(t, s, "-1:refused etcdserver: mvcc: required revision has been compacted")
}

func TestCompactedStart(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	w.put("a", "a", "a", "a") // 2..5
	w.compact(4)
	create(t, s, watch("a", "", 3))
	want(t, s, "0:created@5", "0:compacted 4")
	create(t, s, watch("a", "", 4))
	want(t, s, "1:created@5", "1:put a@4,put a@5")
	// As in etcd a watch that compaction ended keeps its id until it is canceled.
	create(t, s, &pb.WatchCreateRequest{Key: []byte("a"), WatchId: 7, StartRevision: 1})
	want(t, s, "7:created@5", "7:compacted 4")
	create(t, s, &pb.WatchCreateRequest{Key: []byte("a"), WatchId: 7})
	want(t, s, "-1:refused "+errDuplicateID.Error())
	if err := s.Cancel(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	want(t, s, "7:canceled")
	create(t, s, &pb.WatchCreateRequest{Key: []byte("a"), WatchId: 7})
	want(t, s, "7:created@5")
	if got := w.hub.Stats(); got.Watchers != 2 || got.Behind != 0 {
		t.Errorf("stats %+v, want 2 watchers, none behind", got)
	}
}

func TestIDs(t *testing.T) {
	w := newWorld(t, Config{MaxStreamWatchers: 4, MaxWatchers: 5})
	s := w.stream()
	create(t, s, &pb.WatchCreateRequest{Key: []byte("a"), WatchId: 1})
	create(t, s, watch("a", "", 0)) // 0
	create(t, s, watch("a", "", 0)) // 1 is taken: 2
	create(t, s, &pb.WatchCreateRequest{Key: []byte("a"), WatchId: 2})
	create(t, s, watch("b", "b", 0))
	create(t, s, watch("a", "", 0))
	create(t, s, watch("a", "", 0))
	want(t, s, "1:created@1", "0:created@1", "2:created@1", "-1:refused "+errDuplicateID.Error(),
		"-1:refused "+errEmptyRange.Error(), "3:created@1")
	if got := next(t, s); !strings.HasPrefix(got, "-1:refused watch: too many watchers: this stream") {
		t.Errorf("got %q", got)
	}
	other := w.stream()
	create(t, other, watch("a", "", 0))
	want(t, other, "0:created@1")
	create(t, other, watch("a", "", 0))
	if got := next(t, other); !strings.HasPrefix(got, "-1:refused watch: too many watchers: this server") {
		t.Errorf("got %q", got)
	}
}

// An ID that the server chose is not chosen again: what is on its way to a client may be of the watch
// that had it.
func TestChosenIDsAreNotChosenAgain(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	for _, id := range []string{"0", "1", "2"} {
		create(t, s, watch("a", "", 0))
		want(t, s, id+":created@1")
	}
	for _, id := range []int64{2, 0} {
		if err := s.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, "2:canceled", "0:canceled")
	for _, id := range []string{"3", "4"} {
		create(t, s, watch("a", "", 0))
		want(t, s, id+":created@1")
	}
}

func TestFilters(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	noPut := watch("a", "", 0)
	noPut.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	noDelete := watch("a", "", 0)
	noDelete.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}
	create(t, s, noPut)
	create(t, s, noDelete)
	want(t, s, "0:created@1", "1:created@1")
	w.put("a")
	want(t, s, "1:put a@2")
	w.del("a")
	want(t, s, "0:del a@3")
	noDelete.StartRevision = 2
	create(t, s, noDelete)
	want(t, s, "2:created@3", "2:put a@2")
	for _, filters := range [][]pb.WatchCreateRequest_FilterType{
		{pb.WatchCreateRequest_NOPUT, pb.WatchCreateRequest_NODELETE}, {pb.WatchCreateRequest_NODELETE, pb.WatchCreateRequest_NOPUT},
	} {
		neither := watch("b", "", 0)
		neither.Filters = filters
		create(t, s, neither)
	}
	want(t, s, "3:created@3", "4:created@3")
	w.put("b")
	w.del("b")
	quiet(t, w, s)
}

func TestCancel(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("", "\x00", 0))
	want(t, s, "0:created@1", "1:created@1")
	for _, id := range []int64{5, 0} { // 5 is nobody's and stays unanswered
		if err := s.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, "0:canceled")
	w.put("a")
	want(t, s, "1:put a@2")
	quiet(t, w, s)
	s.Close()
	if got := w.hub.Stats(); got != (Stats{Events: got.Events}) {
		t.Errorf("stats after close %+v, want none", got)
	}
	if w.hub.synced.count != 0 || len(w.hub.synced.keys) != 0 || w.hub.synced.tree != nil {
		t.Errorf("index after close %+v, want it empty", w.hub.synced)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next after close: %v, want ErrClosed", err)
	}
	if err := s.Cancel(t.Context(), 1); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("Cancel after close: %v", err)
	}
}

func TestRevisionIsNotSplit(t *testing.T) {
	w := newWorld(t, Config{MaxStreamEvents: 2, ChunkEvents: 1, ChunkBytes: 1})
	s := w.stream()
	create(t, s, watch("", "\x00", 0))
	want(t, s, "0:created@1")
	w.txn("a", "b", "c")
	w.txn("d", "e", "f")
	w.settle()
	want(t, s, "0:put a@2,put b@2,put c@2", "0:put d@3,put e@3,put f@3")
	w.put("g")
	w.settle()
	if got := w.hub.Stats().Behind; got != 0 {
		t.Errorf("%d watchers behind after all was read, want 0", got)
	}
	want(t, s, "0:put g@4")
}

func TestSlowWatcher(t *testing.T) {
	limits := Config{MaxStreamEvents: 10, MaxStreamBytes: 4000, MaxBytes: 2000}
	w := newWorld(t, limits)
	slow, slower, fast := w.stream(), w.stream(), w.stream()
	for _, s := range []*Stream{slow, slower, fast} {
		create(t, s, watch("", "\x00", 0))
		want(t, s, "0:created@1")
	}
	seen := int64(1)
	count := func(s *Stream, seen, until int64) int64 {
		for seen < until {
			for _, e := range response(t, s).Events {
				if seen++; e.KV.ModRevision != seen {
					t.Fatalf("event of revision %d, want %d", e.KV.ModRevision, seen)
				}
			}
		}
		return seen
	}
	for range 1000 {
		w.put("a")
		seen = count(fast, seen, w.store.Revision())
		if got := w.hub.Stats().Bytes; got > limits.MaxBytes {
			t.Fatalf("%d bytes queued, want at most %d", got, limits.MaxBytes)
		}
	}
	if got := w.hub.Stats().Behind; got != 2 {
		t.Fatalf("%d watchers behind, want 2", got)
	}
	count(slow, 1, w.store.Revision())
	quiet(t, w, slow)
	count(slower, 1, w.store.Revision())
	quiet(t, w, slower)
	if got := w.hub.Stats(); got.Behind != 0 || got.Bytes != 0 {
		t.Errorf("stats %+v, want none behind and nothing queued", got)
	}
	w.put("a")
	want(t, slow, "0:put a@1002")
}

func TestFallenBehindCompaction(t *testing.T) {
	w := newWorld(t, Config{MaxStreamEvents: 2})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("b", "", 0))
	want(t, s, "0:created@1", "1:created@1")
	w.put("a")
	w.settle()
	w.put("a")
	w.settle()
	w.put("a", "a", "a", "b") // 4..7 do not fit in
	w.settle()
	w.compact(6)
	want(t, s, "0:put a@2,put a@3")
	got := map[string]bool{next(t, s): true, next(t, s): true}
	if !got["0:compacted 6"] || !got["1:put b@7"] {
		t.Errorf("got %v, want watch 0 compacted, watch 1 served", got)
	}
}

func TestReplacedStore(t *testing.T) {
	// A snapshot replaces the store by one that is ahead and compacted.
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("a", "", 9))
	want(t, s, "0:created@1", "1:created@1")
	store := kv.New()
	w.store = store
	for range 6 {
		if _, err := store.Put(&pb.PutRequest{Key: []byte("a")}); err != nil {
			t.Fatal(err)
		}
	}
	w.compact(5)
	want(t, s, "0:compacted 5")
	w.put("a", "a", "a")
	want(t, s, "1:put a@9,put a@10")
}

func TestProgress(t *testing.T) {
	w := newWorld(t, Config{MaxStreamEvents: 3})
	s := w.stream()
	ask := func() {
		t.Helper()
		if err := s.Progress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ask() // no watcher: no answer
	quiet(t, w, s)
	create(t, s, watch("a", "", 0))
	want(t, s, "0:created@1")
	ask()
	want(t, s, "-1:progress@1")
	w.put("b", "a", "b")
	ask()
	want(t, s, "0:put a@3", "-1:progress@4")
	// Behind: the report waits for the events.
	w.put("a")
	w.settle()
	w.put("a", "a", "a")
	ask()
	w.put("b")
	ask()
	want(t, s, "0:put a@5", "0:put a@6,put a@7,put a@8", "-1:progress@9")
	quiet(t, w, s)
	// A watcher of the future must not be told of an earlier revision.
	create(t, s, watch("a", "", 20))
	want(t, s, "1:created@9")
	ask()
	quiet(t, w, s)
	if n := len(s.controls); n != 0 {
		t.Errorf("what was asked for keeps %d tokens: after %d nobody can ask for anything", n, maxControls)
	}
}

func TestPeriodicProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.New()
		w := &world{t: t, store: store, hub: NewHub(store.View(), Config{})}
		defer w.hub.Close()
		s := w.hub.NewStream(time.Second)
		defer s.Close()
		notify := watch("a", "", 0)
		notify.ProgressNotify = true
		create(t, s, notify)
		create(t, s, watch("a", "", 0))
		future := watch("a", "", 100)
		future.ProgressNotify = true
		create(t, s, future)
		want(t, s, "0:created@1", "1:created@1", "2:created@1")
		start := time.Now()
		want(t, s, "0:progress@1")
		if got := time.Since(start); got != time.Second {
			t.Errorf("progress after %v, want 1s", got)
		}
		w.put("b")
		want(t, s, "0:progress@2")
		w.put("a")
		want(t, s, "0:put a@3", "1:put a@3")
		start = time.Now()
		want(t, s, "0:progress@3") // the next but one: events stand for a report
		if got := time.Since(start); got != 2*time.Second {
			t.Errorf("progress after %v, want 2s", got)
		}
	})
}

// Progress is due to a quiet watcher however busy its stream is.
func TestPeriodicProgressOfABusyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.New()
		w := &world{t: t, store: store, hub: NewHub(store.View(), Config{})}
		defer w.hub.Close()
		s := w.hub.NewStream(time.Second)
		defer s.Close()
		notify := watch("quiet", "", 0)
		notify.ProgressNotify = true
		create(t, s, notify)
		create(t, s, watch("a", "", 0))
		create(t, s, watch("a", "", 0))
		want(t, s, "0:created@1", "1:created@1", "2:created@1")
		for range 10 { // there is always something on the queue
			w.put("a")
			w.settle()
			time.Sleep(250 * time.Millisecond)
			if got := short(response(t, s)); strings.HasPrefix(got, "0:progress") {
				return
			}
		}
		t.Error("2.5 s have no report of progress, want one a second")
	})
}

// A request ends with its context, and its stream's end.
func TestRequestsEndWithTheirContext(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	for range maxControls {
		create(t, s, watch("b", "b", 0))
	}
	cause := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for what, err := range map[string]error{
		"Create":   s.Create(ctx, watch("a", "", 0)),
		"Cancel":   s.Cancel(ctx, 0),
		"Progress": s.Progress(ctx),
	} {
		if err != cause {
			t.Errorf("%s: %v, want the context's cause", what, err)
		}
	}
	s.Close()
	for what, err := range map[string]error{
		"Create":   s.Create(t.Context(), watch("a", "", 0)),
		"Cancel":   s.Cancel(t.Context(), 0),
		"Progress": s.Progress(t.Context()),
	} {
		if err != ErrClosed {
			t.Errorf("%s of a closed stream: %v, want ErrClosed", what, err)
		}
	}
}

func TestNextEndsWithContext(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	cause := errors.New("no leader")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := s.Next(ctx); err != cause {
		t.Errorf("Next: %v, want %v", err, cause)
	}
	w.hub.Close()
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next: %v, want ErrClosed", err)
	}
}

func TestControlsPushBack(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	for range maxControls {
		create(t, s, watch("b", "b", 0))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Create(ctx, watch("a", "", 0)) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("create with %d answers unread: %v, want it to wait", maxControls, err)
	}
	next(t, s)
	create(t, s, watch("a", "", 0))
}

// From no state nobody can watch; from the first one on all is as ever.
func TestHubWithoutState(t *testing.T) {
	w := newWorld(t, Config{})
	w.put("a") // 2
	hub := NewHub(kv.View{}, Config{})
	t.Cleanup(hub.Close)
	s := hub.NewStream(0)
	t.Cleanup(s.Close)
	if err := s.Create(t.Context(), watch("a", "", 0)); !errors.Is(err, kv.ErrNoState) {
		t.Fatalf("a watch of no state: %v", err)
	}
	if got := len(s.controls); got != 0 {
		t.Fatalf("the refusal leaves %d tokens behind", got)
	}
	hub.Publish(w.store.View())
	create(t, s, watch("a", "", 0))
	want(t, s, "0:created@2")
	create(t, s, watch("a", "", 1))
	want(t, s, "1:created@2", "1:put a@2")
	w.put("b", "a") // 4
	hub.Publish(w.store.View())
	got := []string{next(t, s), next(t, s)}
	if slices.Sort(got); !slices.Equal(got, []string{"0:put a@4", "1:put a@4"}) {
		t.Errorf("then %v", got)
	}
}

// A report of progress says no more than what was published and handed out, and no less
// than what was published when it was asked for.
func TestProgressIsOfWhatWasPublished(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	want(t, s, "0:created@1")
	w.put("b", "b", "b")
	if err := s.Progress(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "-1:progress@4")
	// Written, and not published yet.
	if _, err := w.store.Put(&pb.PutRequest{Key: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Progress(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "-1:progress@4")
	w.hub.Publish(w.store.View())
	if err := s.Progress(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s, "0:put a@5", "-1:progress@5")
	// Asked twice before it is read: one report, of the later.
	for range 2 {
		w.put("b")
		if err := s.Progress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, "-1:progress@7")
	quiet(t, w, s)
}
