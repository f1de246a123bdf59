package diff

import (
	"context"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// stream is one Watch stream of one target and all it received, sorted by
// watch.
type stream struct {
	target *Target
	member int // of the target
	rpc    pb.Watch_WatchClient

	mu       sync.Mutex
	controls map[int64][]*pb.WatchResponse // created and cancelled, by watch id
	events   map[int64][]*mvccpb.Event     // by watch id
	watches  map[int64]*watchState         // created ones, by watch id
	asked    *pb.WatchCreateRequest        // the one whose answer is awaited
	created  int                           // answers to create requests
	canceled int                           // watches that ended
	progress int64                         // highest revision of a progress notification
	notified int                           // progress notifications
	fault    string                        // the first broken promise, or how the stream ended
	changed  chan struct{}                 // closed and replaced at each response
}

// watchState is what must be known of a watch to judge its events.
type watchState struct {
	prevKV, fragment bool  // asked for
	since            int64 // revision at which it was created
	last             int64 // revision of its last event
}

func (t *Target) watch(ctx context.Context, member int) (*stream, error) {
	rpc, err := pb.NewWatchClient(t.conn(member)).Watch(ctx)
	if err != nil {
		return nil, err
	}
	s := &stream{
		target: t, member: member, rpc: rpc,
		controls: map[int64][]*pb.WatchResponse{}, events: map[int64][]*mvccpb.Event{},
		watches: map[int64]*watchState{}, changed: make(chan struct{}),
	}
	go s.receive(ctx)
	return s, nil
}

func (s *stream) receive(ctx context.Context) {
	for {
		r, err := s.rpc.Recv()
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		if err != nil {
			s.blame(fmt.Sprintf("stream ended: %v", err))
		} else {
			s.take(r)
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take files one response and checks what a stream promises.
func (s *stream) take(r *pb.WatchResponse) {
	revision := r.Header.GetRevision()
	switch {
	case r.Created && s.asked == nil:
		s.blame("an answer to no request: " + show(r))
	case r.Created || r.Canceled:
		if r.Created {
			s.created++
			if !r.Canceled {
				s.watches[r.WatchId] = &watchState{prevKV: s.asked.PrevKv, fragment: s.asked.Fragment, since: revision}
			}
		} else {
			s.canceled++
		}
		if r.CompactRevision != 0 && r.Header != nil {
			r.Header.Revision = 0 // see the package comment
		}
		normalize(r, s.target.granted)
		s.controls[r.WatchId] = append(s.controls[r.WatchId], r)
	case len(r.Events) > 0:
		s.takeEvents(r)
	case revision < s.progress:
		s.blame(fmt.Sprintf("progress goes back from %d: %s", s.progress, show(r)))
	default:
		s.progress = revision
		s.notified++
	}
}

func (s *stream) takeEvents(r *pb.WatchResponse) {
	id, revision := r.WatchId, r.Header.GetRevision()
	w := s.watches[id]
	if w == nil {
		s.blame(fmt.Sprintf("events of watch %d, which was never created", id))
		return
	}
	first, last := r.Events[0].Kv.ModRevision, r.Events[len(r.Events)-1].Kv.ModRevision
	switch {
	case first < w.last:
		s.blame(fmt.Sprintf("watch %d goes back from revision %d to %d", id, w.last, first))
	case first == w.last && !w.fragment:
		s.blame(fmt.Sprintf("watch %d: revision %d is split over responses", id, first))
	case first > w.since && first <= s.progress:
		s.blame(fmt.Sprintf("watch %d: an event at %d after progress to %d", id, first, s.progress))
	case revision < last:
		s.blame(fmt.Sprintf("watch %d: header revision %d is behind the event at %d", id, revision, last))
	}
	w.last = last
	for _, e := range r.Events {
		if !w.prevKV {
			e.PrevKv = nil // see the package comment
		}
		rename(e, s.target.granted)
		s.events[id] = append(s.events[id], e)
	}
}

// blame keeps the first fault.
func (s *stream) blame(fault string) {
	if s.fault == "" {
		s.fault = fault
	}
}

// until waits for a condition on the stream, false when it did not come true
// before ctx ended.
func (s *stream) until(ctx context.Context, ok func() bool) bool {
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// difference describes where two streams do not agree, "" when they do.
func difference(a, b *stream) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range []*stream{a, b} {
		if s.fault != "" {
			return s.target.Name + ": " + s.fault
		}
	}
	for id := int64(-1); id < 64; id++ {
		if d := firstDifference(a.controls[id], b.controls[id]); d != "" {
			return fmt.Sprintf("watch %d, created and cancelled: %s", id, d)
		}
		if d := firstDifference(a.events[id], b.events[id]); d != "" {
			return fmt.Sprintf("watch %d, events: %s", id, d)
		}
	}
	return ""
}

func firstDifference[M proto.Message](a, b []M) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("number %d: nothing\n  and %s", i, show(b[i]))
		case i >= len(b):
			return fmt.Sprintf("number %d: %s\n  and nothing", i, show(a[i]))
		case !proto.Equal(a[i], b[i]):
			return fmt.Sprintf("number %d: %s\n  and %s", i, show(a[i]), show(b[i]))
		}
	}
	return ""
}
