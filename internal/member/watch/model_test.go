package watch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// seen is what one watcher got.
type seen struct {
	request   *pb.WatchCreateRequest
	created   int64
	compacted int64
	progress  int64
	events    []string
	last      int64 // revision of the last event
}

// TestAgainstHistory runs a writer and streams that create, cancel and read at
// their own pace, under limits so tight that watchers fall behind all the time.
// It compares the events that each watcher got with the whole history.
func TestAgainstHistory(t *testing.T) {
	const writes, streams = 3000, 8
	w := newWorld(t, Config{MaxStreamEvents: 8, MaxStreamBytes: 2000, ChunkEvents: 3, ChunkBytes: 500})
	var history []kv.Event
	published := make(chan struct{})
	go func() {
		defer close(published)
		rng := rand.New(rand.NewPCG(3, 4))
		for range writes {
			switch rng.IntN(12) {
			case 0:
				w.txn("k1", "k2", fmt.Sprint("k", 3+rng.IntN(7)))
			case 1:
				w.del(fmt.Sprint("k", rng.IntN(10)))
			case 2:
				if rev := w.store.Revision() - 200; rng.IntN(50) == 0 && rev > w.store.CompactRevision() {
					events, err := w.store.View().Events(history0(history) + 1)
					w.check(err)
					history = slices.AppendSeq(history, events)
					w.compact(rev)
				}
			default:
				w.put(fmt.Sprint("k", rng.IntN(10)))
			}
		}
		events, err := w.store.View().Events(history0(history) + 1)
		w.check(err)
		history = slices.AppendSeq(history, events)
	}()
	var wg sync.WaitGroup
	results := make([][]*seen, streams)
	for i := range streams {
		wg.Go(func() { results[i] = runStream(t, w, uint64(i), published) })
	}
	wg.Wait()
	for i, stream := range results {
		for j, got := range stream {
			checkSeen(t, fmt.Sprint(i, "/", j), got, history)
		}
	}
	if got := w.hub.Stats(); got != (Stats{Events: got.Events}) {
		t.Errorf("stats after the end %+v, want none", got)
	}
}

func history0(history []kv.Event) int64 {
	if len(history) == 0 {
		return 1
	}
	return history[len(history)-1].KV.ModRevision
}

// runStream creates watchers while it reads, and reads on until every living
// watcher has all of the history.
func runStream(t *testing.T, w *world, seed uint64, published <-chan struct{}) (all []*seen) {
	rng := rand.New(rand.NewPCG(seed, 5))
	s := w.hub.NewStream(0)
	defer s.Close()
	watchers := map[int64]*seen{}
	var waiting []*pb.WatchCreateRequest
	ended := false
	for {
		if len(all) < 20 && len(waiting) == 0 {
			r := watch(fmt.Sprint("k", rng.IntN(10)), []string{"", "k5", "\x00"}[rng.IntN(3)], 0)
			switch at := w.hub.view.Load().Revision(); rng.IntN(3) {
			case 0:
				r.StartRevision = max(1, at-int64(rng.IntN(300)))
			case 1:
				r.StartRevision = at + int64(rng.IntN(20))
			}
			if _, err := spanOf(r.Key, r.RangeEnd); err == nil {
				waiting = append(waiting, r)
				create(t, s, r)
			}
		}
		if !ended && len(all) == 20 {
			select {
			case <-published:
				ended = true
			default:
			}
		}
		if !ended {
			held := len(s.controls)
			if err := s.Progress(t.Context()); err != nil {
				t.Error(err)
				return all
			}
			if len(s.controls) != held {
				t.Errorf("a report that was asked for keeps a token: after %d of them nobody can ask for anything", maxControls)
				return all
			}
		}
		if behind := behindOf(s); behind < 0 {
			t.Errorf("%d watchers are behind", behind)
			return all
		}
		quiet := idle(w, s) && len(s.pending) == 0
		if quiet && ended {
			return all
		}
		ctx, cancel := context.WithCancel(t.Context())
		if quiet {
			cancel() // nothing to wait for: look again
		} else {
			// A wait may come to nothing: then look again, too.
			go func() {
				for ctx.Err() == nil && !idle(w, s) {
					runtime.Gosched()
				}
				cancel()
			}()
		}
		r, err := s.Next(ctx)
		cancel()
		if err != nil {
			continue
		}
		if now := w.hub.view.Load().Revision(); r.Revision > now {
			t.Errorf("a response %s of revision %d, when %d was published", short(r), r.Revision, now)
		}
		switch g := watchers[r.WatchID]; {
		case r.Created:
			g = &seen{request: waiting[0], created: r.Revision}
			waiting = waiting[1:]
			watchers[r.WatchID], all = g, append(all, g)
		case r.CompactRevision != 0:
			g.compacted = r.CompactRevision
		case r.WatchID == invalidID:
			for _, g := range watchers {
				if r.Revision < g.progress || r.Revision < g.last {
					t.Errorf("watch %v: progress %d after progress %d and revision %d", g.request, r.Revision, g.progress, g.last)
				}
				g.progress = max(g.progress, r.Revision)
			}
		default:
			for i, e := range r.Events {
				if rev := e.KV.ModRevision; rev < g.last || i == 0 && rev == g.last {
					t.Errorf("watch %v: revision %d after %d", g.request, rev, g.last)
				} else if rev <= g.progress {
					t.Errorf("watch %v: revision %d after progress %d", g.request, rev, g.progress)
				}
				g.last = e.KV.ModRevision
				g.events = append(g.events, describe(e.Event))
			}
		}
		for range rng.IntN(2000) { // be slow at times
			seed++
		}
	}
}

// idle reports whether nothing waits on the stream, all that is published being
// handed out; Next may still hold some of it.
func idle(w *world, s *Stream) bool {
	w.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.empty() && s.behind == 0
}

func behindOf(s *Stream) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind
}

func describe(e kv.Event) string {
	return fmt.Sprint(e.Type, " ", string(e.KV.Key), "@", e.KV.ModRevision)
}

func checkSeen(t *testing.T, name string, got *seen, history []kv.Event) {
	t.Helper()
	from := got.request.StartRevision
	if from == 0 {
		from = got.created + 1
	}
	span, err := spanOf(got.request.Key, got.request.RangeEnd)
	if err != nil {
		t.Fatal(err)
	}
	until := int64(1 << 62)
	if got.compacted != 0 {
		until = got.last // it may have ended anywhere before the compacted revision
		if got.last >= got.compacted {
			t.Errorf("%s: got revision %d, then was told that %d is compacted", name, got.last, got.compacted)
		}
	}
	var want []string
	for _, e := range history {
		k := string(e.KV.Key)
		in := span.single && k == span.start || !span.single && k >= span.start && below(k, span.end)
		if in && e.KV.ModRevision >= from && e.KV.ModRevision <= until {
			want = append(want, describe(e))
		}
	}
	if !slices.Equal(got.events, want) {
		t.Errorf("%s: watch %v created at %d, compacted %d: got %d events, want %d\ngot  %v\nwant %v",
			name, got.request, got.created, got.compacted, len(got.events), len(want), got.events, want)
	}
}
