package watch

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// behindWorld is a stream with two watchers of a and b, of which both are behind. The events
// that fitted were delivered, and revisions 4 to 7 (a, a, a, b) are still to be read from the
// log.
func behindWorld(t *testing.T) (*world, *Stream) {
	w := newWorld(t, Config{MaxStreamEvents: 2})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("b", "", 0))
	w.put("a")
	w.settle()
	w.put("a")
	w.settle()
	w.put("a", "a", "a", "b")
	w.settle()
	return w, s
}

// Progress that was asked for while watchers were behind comes whatever it is that leaves none
// behind.
func TestProgressOnceNobodyIsBehind(t *testing.T) {
	t.Run("canceled", func(t *testing.T) {
		w := newWorld(t, Config{ChunkEvents: 1, ChunkBytes: 1})
		w.put("a", "a", "a") // 2..4
		s := w.stream()
		create(t, s, watch("b", "", 0))
		create(t, s, watch("a", "", 2))
		want(t, s, "0:created@4", "1:created@4")
		ask(t, s)
		if err := s.Cancel(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for got := ""; got != "-1:progress@4"; {
			got = next(t, s)
		}
	})
	t.Run("compacted", func(t *testing.T) {
		w := newWorld(t, Config{})
		w.put("a", "a", "a", "a") // 2..5
		s := w.stream()
		create(t, s, watch("b", "", 0))
		create(t, s, watch("a", "", 2))
		w.compact(4)
		ask(t, s)
		want(t, s, "0:created@5", "1:created@5", "1:compacted 4", "-1:progress@5")
	})
}

// A watch that a compaction ended has no progress, and holds back nobody else's.
func TestProgressIsOfTheLiving(t *testing.T) {
	w := newWorld(t, Config{})
	w.put("a", "a", "a", "a") // 2..5
	w.compact(4)
	s := w.stream()
	create(t, s, watch("a", "", 2))
	want(t, s, "0:created@5", "0:compacted 4")
	ask(t, s)
	quiet(t, w, s)
	create(t, s, watch("b", "", 0))
	want(t, s, "1:created@5")
	ask(t, s)
	want(t, s, "-1:progress@5")
}

func ask(t *testing.T, s *Stream) {
	t.Helper()
	if err := s.Progress(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The options of a watch apply to all its events, from the log and live ones.
func TestResponsesHaveTheOptionsOfTheirWatch(t *testing.T) {
	w := newWorld(t, Config{})
	w.put("a")
	s := w.stream()
	for _, start := range []int64{0, 2} {
		for _, prev := range []bool{false, true} {
			for _, fragment := range []bool{false, true} {
				r := watch("a", "", start)
				r.PrevKv, r.Fragment = prev, fragment
				create(t, s, r)
			}
		}
	}
	seen := map[int64]int{}
	check := func(events int) {
		t.Helper()
		for events > 0 {
			r := response(t, s)
			if len(r.Events) == 0 {
				continue
			}
			events--
			seen[r.WatchID]++
			if prev, fragment := r.WatchID%4 >= 2, r.WatchID%2 == 1; r.PrevKV != prev || r.Fragment != fragment {
				t.Errorf("%s: previous values %v, fragments %v; the watch asked for %v, %v", short(r), r.PrevKV, r.Fragment, prev, fragment)
			}
		}
	}
	check(4) // from the log
	w.put("a")
	check(8)
	if len(seen) != 8 {
		t.Errorf("%d watches got events, want 8", len(seen))
	}
}

// Each answer that waits takes a token, and gives it back.
func TestAnswersGiveTheirTokensBack(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("b", "b", 0))
	if err := s.Cancel(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := len(s.controls); got != 3 {
		t.Errorf("%d tokens are taken, want 3 for a watch, a refusal and a cancellation", got)
	}
	if err := s.Cancel(t.Context(), 7); err != nil { // nobody's: there is no answer
		t.Fatal(err)
	}
	ask(t, s)
	for i, answer := range []string{"0:created@1", "-1:refused " + errEmptyRange.Error(), "0:canceled"} {
		want(t, s, answer)
		if got := len(s.controls); got != 2-i {
			t.Errorf("%d tokens are taken after %s, want %d", got, answer, 2-i)
		}
	}
}

// A closed stream takes no more requests, and neither does one of a closed hub.
func TestNothingIsTakenAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(*Stream){
		"stream": (*Stream).Close,
		"hub":    func(s *Stream) { s.hub.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := kv.New()
				hub := NewHub(store.View(), Config{})
				defer hub.Close()
				s := hub.NewStream(0)
				defer s.Close()
				for range maxControls {
					create(t, s, watch("b", "b", 0))
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				create, next := make(chan error, 1), make(chan error, 1)
				go func() { create <- s.Create(ctx, watch("a", "", 0)) }()
				idle := hub.NewStream(0)
				defer idle.Close()
				go func() { _, err := idle.Next(ctx); next <- err }()
				synctest.Wait()
				end(s)
				end(idle)
				synctest.Wait()
				for what, result := range map[string]chan error{"Create": create, "Next": next} {
					select {
					case err := <-result:
						if err != ErrClosed {
							t.Errorf("%s that waited: %v, want ErrClosed", what, err)
						}
					default:
						t.Errorf("%s waits after the end, want ErrClosed", what)
					}
				}
			})
		})
	}
}

// A watch that is created while the stream is being closed does not stay behind: nobody
// would ever end it. Whether the request is on its way already is a matter of chance, so
// there are many.
func TestNoWatchOfAClosedStream(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	s.Close()
	for range maxControls {
		if err := s.Create(t.Context(), watch("a", "", 0)); err != ErrClosed {
			t.Errorf("a watch of a closed stream: %v, want ErrClosed", err)
		}
	}
	if got := w.hub.Stats(); got != (Stats{}) {
		t.Errorf("stats after close %+v, want none", got)
	}
	if n := len(s.controls); n != 0 {
		t.Errorf("%d tokens are taken, want none", n)
	}
}

// A queue keeps no more of a stream's events than it may, by number and by size, and knows how
// much it keeps.
func TestQueueIsBounded(t *testing.T) {
	w := newWorld(t, Config{MaxStreamEvents: 20, MaxStreamBytes: 2000})
	s := w.stream()
	create(t, s, watch("", "\x00", 0))
	want(t, s, "0:created@1")
	for i := range 50 {
		if i%5 == 4 {
			w.txn("a", "b", "c")
		} else {
			w.put("a")
		}
		w.settle()
		events, bytes := 0, 0
		for _, it := range s.queue.items[s.queue.head:] {
			events += len(it.events)
			for _, e := range it.events {
				bytes += e.size()
			}
		}
		if events > 20 || bytes > 2000 {
			t.Fatalf("%d events and %d bytes are queued, want at most 20 and 2000", events, bytes)
		}
		if events != s.queue.events || bytes != s.queue.bytes || int64(bytes) != w.hub.Stats().Bytes || int64(events) != w.hub.Stats().Pending {
			t.Fatalf("%d events and %d bytes are queued, and %d, %d and in all %+v are counted", events, bytes, s.queue.events, s.queue.bytes, w.hub.Stats())
		}
	}
	for last := int64(1); last < 51; {
		for _, e := range response(t, s).Events {
			if rev := e.KV.ModRevision; rev != last && rev != last+1 {
				t.Fatalf("revision %d after %d", rev, last)
			}
			last = e.KV.ModRevision
		}
	}
	if s.queue.events != 0 || s.queue.bytes != 0 {
		t.Errorf("%d events and %d bytes are counted in an empty queue", s.queue.events, s.queue.bytes)
	}
}

// A client that is slower than the writers gets fewer and larger responses, of one watcher each,
// whose header is that of the last event, and which do not grow without bound.
func TestMergedResponses(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("b", "", 0))
	want(t, s, "0:created@1", "1:created@1")
	for range 3 {
		w.put("a")
		w.settle()
	}
	r := response(t, s)
	if got := short(r); got != "0:put a@2,put a@3,put a@4" || r.Revision != 4 {
		t.Errorf("got %s under a header of revision %d, want 2 to 4 under 4", got, r.Revision)
	}
	w.put("a")
	w.settle()
	w.put("b")
	w.settle()
	want(t, s, "0:put a@5", "1:put b@6")
	value := bytes.Repeat([]byte("x"), maxMerged/4)
	for range 10 {
		_, err := w.store.Put(&pb.PutRequest{Key: []byte("a"), Value: value})
		w.check(err)
		w.hub.Publish(w.store.View())
		w.settle()
	}
	for events := 0; events < 10; {
		size := 0
		r := response(t, s)
		for _, e := range r.Events {
			size += e.size()
		}
		if events += len(r.Events); size > maxMerged {
			t.Errorf("a merged response of %d bytes, %d are the limit", size, maxMerged)
		}
	}
}

// Items leave a long queue whole and in the order in which they came.
func TestQueueKeepsItsOrder(t *testing.T) {
	var q queue
	put, taken := int64(0), int64(0)
	for range 5 {
		for range 200 {
			put++
			q.push(item{revision: put})
		}
		for range 150 {
			if taken++; q.pop().revision != taken {
				t.Fatalf("the %dth item is another", taken)
			}
		}
	}
	for !q.empty() {
		if taken++; q.pop().revision != taken {
			t.Fatalf("the %dth item is another", taken)
		}
	}
	if taken != put {
		t.Errorf("%d items of %d came", taken, put)
	}
}

// Progress of one watcher that waits in the queue is not taken for that of all.
func TestProgressOfOneIsNotThatOfAll(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	notify := watch("a", "", 0)
	notify.ProgressNotify = true
	create(t, s, notify)
	want(t, s, "0:created@1")
	s.reportQuiet()
	w.put("b")
	ask(t, s)
	want(t, s, "0:progress@1", "-1:progress@2")
}

// No progress is reported by itself of a watcher that has events to read from the log, and what
// it reads there counts as events.
func TestNoPeriodicProgressWhileBehind(t *testing.T) {
	w := newWorld(t, Config{MaxStreamEvents: 2})
	s := w.stream()
	notify := watch("a", "", 0)
	notify.ProgressNotify = true
	create(t, s, notify)
	want(t, s, "0:created@1")
	w.put("a", "a", "a", "a") // 2..5 do not fit in
	w.settle()
	s.reportQuiet()
	want(t, s, "0:put a@2,put a@3,put a@4,put a@5")
	quiet(t, w, s)
	s.reportQuiet() // it got events since the last time
	quiet(t, w, s)
	s.reportQuiet()
	want(t, s, "0:progress@5")
}

// The queue and the log take turns: who is late does not keep those that are not from their
// events, nor the other way round.
func TestQueueAndLogTakeTurns(t *testing.T) {
	w := newWorld(t, Config{ChunkEvents: 1, ChunkBytes: 1})
	for range 20 {
		w.put("a") // 2..21
	}
	s := w.stream()
	create(t, s, watch("b", "", 0))
	create(t, s, watch("a", "", 2))
	create(t, s, watch("c", "", 0))
	want(t, s, "0:created@21", "1:created@21")
	for range 10 {
		w.put("b") // and those of c between them, so that nothing is merged
		w.settle()
		w.put("c")
		w.settle()
	}
	var got strings.Builder
	for range 20 {
		switch r := response(t, s); {
		case r.WatchID == 1:
			got.WriteByte('l')
		default:
			got.WriteByte('q')
		}
	}
	if strings.Contains(got.String(), "lll") || strings.Contains(got.String(), "qqq") {
		t.Errorf("responses from the queue and the log came as %s, want them in turns", &got)
	}
}

// A watch that its client canceled while it was behind ends once, whether what it had still to
// read is there or compacted, and takes no place among the live.
func TestCanceledWhileBehindEndsOnce(t *testing.T) {
	for name, compacted := range map[string]bool{"read on": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			w, s := behindWorld(t)
			if err := s.Cancel(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			if compacted {
				w.compact(6)
			}
			ends := 0
			for !idle(w, s) || s.late.count > 0 || len(s.pending) > 0 {
				got := next(t, s)
				if got == "0:canceled" || strings.HasPrefix(got, "0:compacted") {
					ends++
				}
				if ends > 0 && strings.HasPrefix(got, "0:put") {
					t.Errorf("got %s after the end", got)
				}
			}
			if ends != 1 {
				t.Errorf("the watch was ended %d times", ends)
			}
			if got := w.hub.Stats(); got.Watchers != 1 || got.Behind != 0 || w.hub.synced.count != 1 {
				t.Errorf("stats %+v with %d live, want one watcher, which is live", got, w.hub.synced.count)
			}
		})
	}
}

// Closing gives back what a stream's queue held, and what its late watchers were.
func TestCloseFreesWhatWasQueued(t *testing.T) {
	w, s := behindWorld(t)
	if got := w.hub.Stats(); got.Bytes == 0 || got.Behind == 0 {
		t.Fatalf("stats %+v, want something queued and somebody behind", got)
	}
	s.Close()
	if got := w.hub.Stats(); got != (Stats{Events: got.Events}) {
		t.Errorf("stats after close %+v, want none", got)
	}
}

// The defaults are those that the documentation of Config gives.
func TestDefaults(t *testing.T) {
	want := Config{
		MaxWatchers: 2_000_000, MaxStreamWatchers: 200_000, MaxStreamEvents: 4096, MaxStreamBytes: 4 << 20,
		MaxBytes: 256 << 20, ChunkEvents: 4096, ChunkBytes: 1 << 20,
	}
	if got := (Config{}).withDefaults(); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	own := Config{1, 2, 3, 4, 5, 6, 7}
	if got := own.withDefaults(); got != own {
		t.Errorf("%+v has become %+v", own, got)
	}
}

// Events wait behind what else waits of their watcher, and are part of none of it.
func TestEventsAreNotMergedIntoAnswers(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	r := watch("a", "", 0)
	r.ProgressNotify = true
	create(t, s, r)
	w.put("a")
	w.settle()
	want(t, s, "0:created@1", "0:put a@2")
	s.reportQuiet() // it got events since the last time
	s.reportQuiet()
	w.put("a")
	w.settle()
	want(t, s, "0:progress@2", "0:put a@3")
}

// Progress that was asked for behind a watch that is refused comes all the same.
func TestProgressBehindARefusal(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("b", "b", 0))
	ask(t, s)
	want(t, s, "0:created@1", "-1:refused "+errEmptyRange.Error(), "-1:progress@1")
}

// Progress that is reported by itself is of what is published, and a watch from the present on is
// no watch of the future, whichever stream asks for its progress.
func TestPeriodicProgressIsOfWhatIsPublished(t *testing.T) {
	w := newWorld(t, Config{})
	w.put("b", "b") // 2, 3
	w.settle()
	s := w.stream()
	r := watch("a", "", 3)
	r.ProgressNotify = true
	create(t, s, r)
	want(t, s, "0:created@3")
	if r, err := try(t, s); err == nil { // it catches up
		t.Fatalf("got %q, want nothing", short(r))
	}
	ask(t, s)
	want(t, s, "-1:progress@3")
	s.reportQuiet()
	want(t, s, "0:progress@3")
	_, err := w.store.Put(&pb.PutRequest{Key: []byte("b")}) // published, and the hub does not wake
	w.check(err)
	view := w.store.View()
	w.hub.view.Store(&view)
	s.reportQuiet()
	want(t, s, "0:progress@4")
}

// A queue that is never empty takes no more memory for what was taken off it, and refers to none of
// that.
func TestAQueueForgetsWhatWasTaken(t *testing.T) {
	var q queue
	q.push(item{reason: "stays"})
	for range 10_000 {
		q.push(item{reason: "stays"})
		q.pop()
		if n := cap(q.items); n > 1000 {
			t.Fatalf("a queue of one item has room for %d", n)
		}
		kept := 0
		for _, it := range q.items[:cap(q.items)] {
			if it.reason != "" {
				kept++
			}
		}
		if kept != 1 {
			t.Fatalf("a queue of one item refers to %d", kept)
		}
	}
}

// Progress that was asked for once is reported once, whatever happens later.
func TestProgressIsReportedOnce(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	create(t, s, watch("b", "", 0))
	ask(t, s)
	want(t, s, "0:created@1", "1:created@1", "-1:progress@1")
	if err := s.Cancel(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	want(t, s, "1:canceled")
	quiet(t, w, s)
}

// A watch that is canceled gets first what was published by then.
func TestACancellationIsBehindWhatIsPublished(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("a", "", 0))
	want(t, s, "0:created@1")
	_, err := w.store.Put(&pb.PutRequest{Key: []byte("a")}) // published, and the hub does not wake
	w.check(err)
	view := w.store.View()
	w.hub.view.Store(&view)
	if err := s.Cancel(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	want(t, s, "0:put a@2")
	if r := response(t, s); !r.Canceled || r.Revision != 2 {
		t.Errorf("got %s at revision %d, want that it is canceled at 2", short(r), r.Revision)
	}
}

// An item that fits a bound to the last byte waits for its client, and one that is a byte
// larger does not.
func TestQueuesAtTheirBounds(t *testing.T) {
	const size = eventOverhead + len("a") + len("v2")
	for _, tt := range []struct {
		c      Config
		behind int
	}{
		{Config{MaxStreamBytes: 3 * size}, 0},
		{Config{MaxStreamBytes: 3*size - 1}, 1},
		{Config{MaxBytes: 3 * int64(size)}, 0},
		{Config{MaxBytes: 3*int64(size) - 1}, 1},
		{Config{MaxStreamEvents: 3}, 0},
		{Config{MaxStreamEvents: 2}, 1},
	} {
		w := newWorld(t, tt.c)
		create(t, w.stream(), watch("a", "", 0))
		for range 3 {
			w.put("a")
			w.settle()
		}
		if got := w.hub.Stats().Behind; got != tt.behind {
			t.Errorf("three events of %d bytes each within %+v: %d watchers are behind, want %d", size, tt.c, got, tt.behind)
		}
	}
}

// No key is the first key of all, as in etcd.
func TestNoKeyIsTheFirstKey(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	create(t, s, watch("", "", 0))
	w.put("a", "\x00")
	want(t, s, "0:created@1", "0:put \x00@3")
}

// A report of progress moves on only while it is the last that waits: before events it would say that
// they were delivered.
func TestProgressMovesOnAtTheEndOnly(t *testing.T) {
	report, found := item{kind: progress, revision: 5}, item{kind: events, revision: 6}
	for name, c := range map[string]struct {
		items []item
		moves bool
	}{"behind events": {[]item{found, report}, true}, "before events": {[]item{report, found}, false}, "without a report": {[]item{found}, false}} {
		var q queue
		for _, it := range c.items {
			q.push(it)
		}
		moved := q.advance(7)
		for i, was := range c.items {
			want := was.revision
			if was.kind == progress && c.moves {
				want = 7
			}
			if got := q.items[i].revision; got != want || moved != c.moves {
				t.Errorf("%s: a report moves on: %v, and item %d is of revision %d; want %v, and %d", name, moved, i, got, c.moves, want)
			}
		}
	}
}

// A hub that was closed hands nothing out any more: what its events refer to may go.
func TestACloseWaitsForTheHub(t *testing.T) {
	for range 200 {
		h := NewHub(kv.New().View(), Config{})
		h.Close()
		select {
		case <-h.done:
		default:
			t.Fatal("a hub is closed, and its goroutine goes on")
		}
	}
}
