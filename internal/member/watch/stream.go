package watch

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// invalidID is the watch id of a response that concerns no single watcher.
const invalidID = -1

// A Stream carries the watchers of one client connection. One goroutine calls
// Next, any others the rest.
type Stream struct {
	hub      *Hub
	progress time.Duration
	wake     chan struct{} // for a Next that waits
	controls chan struct{} // one token for each answer that waits for Next

	mu       sync.Mutex // after the hub's mu
	queue    queue
	idle     bool               // Next waits
	watchers map[int64]*watcher // also the ones that a compaction ended, as in etcd
	nextID   int64
	behind   int  // watchers that are behind
	asked    bool // progress of all, as soon as none is behind
	closed   chan struct{}

	// Of the goroutine that calls Next.
	late    index      // the watchers behind whose queued events were delivered
	pending []Response // read from the log; before everything on the queue
	turn    bool       // the log's, rather than the queue's
	ticker  *time.Ticker
	rights  chan struct{} // the hub's, when the stream was told to judge last
}

// A Response is to be sent to the client, as the WatchResponse that it resembles.
type Response struct {
	WatchID         int64
	Revision        int64 // for the header
	Created         bool
	Canceled        bool
	CompactRevision int64
	CancelReason    string
	Judge           bool // nothing is to be sent, but watches are to be judged: see [Hub.Rejudge]
	Events          []*Event
	PrevKV          bool // send the events with their previous values
	Fragment        bool // the client can do with a part of the events at a time
}

// maxControls is how many answers to Create, Cancel and Progress may wait.
const maxControls = 64

// NewStream returns a stream without watchers. Watchers that ask for it get a
// progress report once per interval in which they got nothing else; 0 is never.
func (h *Hub) NewStream(interval time.Duration) *Stream {
	h.mu.Lock()
	h.streams++
	h.mu.Unlock()
	return &Stream{
		hub:      h,
		progress: interval,
		wake:     make(chan struct{}, 1),
		controls: make(chan struct{}, maxControls),
		closed:   make(chan struct{}),
		watchers: make(map[int64]*watcher),
		rights:   *h.rights.Load(),
	}
}

// begin takes a token for an answer, waiting while too many are not yet sent.
func (s *Stream) begin(ctx context.Context) error {
	select {
	case s.controls <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closed:
		return ErrClosed
	case <-s.hub.closing:
		return ErrClosed
	}
}

// Create adds a watcher, or refuses to: the answer comes from Next. The error is
// about the stream, not about the watch: kv.ErrNoState while the hub has no state, by
// which it could say which revision is now.
func (s *Stream) Create(ctx context.Context, r *pb.WatchCreateRequest) error {
	return s.answer(ctx, func() { s.create(r) })
}

// answer has an answer pushed in its turn, with the hub and the stream locked.
func (s *Stream) answer(ctx context.Context, push func()) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.ended() { // since begin
		<-s.controls
		return ErrClosed
	}
	h.dispatch()
	if h.at == 0 {
		<-s.controls
		return kv.ErrNoState
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	push()
	return nil
}

func (s *Stream) create(r *pb.WatchCreateRequest) {
	h := s.hub
	w, err := s.admit(r)
	if err != nil {
		s.push(item{kind: refused, revision: h.at, reason: err.Error()})
		return
	}
	s.push(item{kind: created, revision: h.at, watcher: w})
	h.watchers++
	if w.start == 0 || w.start > h.at {
		w.next = max(w.start, h.at+1)
		w.synced = true
		h.synced.add(w)
	} else {
		w.next = w.start
		h.behind++
		s.behind++
		s.push(item{kind: behind, watcher: w})
	}
}

// admit makes the watcher that is asked for, in etcd's order of checks. The
// caller holds both mutexes.
func (s *Stream) admit(r *pb.WatchCreateRequest) (*watcher, error) {
	if r.StartRevision < 0 {
		return nil, rpctypes.ErrCompacted
	}
	span, err := spanOf(r.Key, r.RangeEnd)
	if err != nil {
		return nil, err
	}
	c := &s.hub.config
	if len(s.watchers) >= c.MaxStreamWatchers {
		return nil, fmt.Errorf("%w: this stream has %d, cancel some or open another stream", errTooManyWatchers, len(s.watchers))
	}
	if s.hub.watchers >= c.MaxWatchers {
		return nil, fmt.Errorf("%w: this server has %d, cancel some or use another member", errTooManyWatchers, s.hub.watchers)
	}
	id := r.WatchId
	if id == 0 { // the server chooses
		for s.watchers[s.nextID] != nil {
			s.nextID++
		}
		id = s.nextID
		s.nextID++
	} else if s.watchers[id] != nil {
		return nil, errDuplicateID
	}
	w := &watcher{stream: s, id: id, span: span}
	w.set(r)
	s.watchers[id] = w
	return w, nil
}

// Cancel removes a watcher. Next confirms it after the events already found; an
// id that does not exist is not answered, as in etcd.
func (s *Stream) Cancel(ctx context.Context, id int64) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dispatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watchers[id]
	if w == nil {
		<-s.controls
		return nil
	}
	delete(s.watchers, id)
	h.drop(w)
	s.push(item{kind: canceled, revision: h.at, watcher: w})
	s.reportAsked()
	return nil
}

// drop ends a watcher. The caller holds h.mu and the stream's mu.
func (h *Hub) drop(w *watcher) {
	if w.gone {
		return
	}
	w.gone = true
	h.watchers--
	if w.synced {
		w.synced = false
		h.synced.remove(w)
	} else {
		h.behind--
		w.stream.behind--
	}
}

// Progress asks for a report that every watcher of the stream has got all events
// up to a revision, which is at least the one published now. It comes when no
// watcher is behind; as in etcd, no watcher or one that waits for a future
// revision means none.
func (s *Stream) Progress(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer func() { <-s.controls }() // reports that wait are merged into one
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dispatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	s.reportAsked()
	return nil
}

// reportAsked queues the report that was asked for, once no watcher is behind. The
// caller holds both mutexes, and the hub has dispatched all that is published.
func (s *Stream) reportAsked() {
	if s.asked && s.behind == 0 {
		s.report(s.hub.at)
	}
}

// report queues the progress of all watchers. The caller holds both mutexes, and
// none of the watchers is behind.
func (s *Stream) report(revision int64) {
	s.asked = false
	living := false
	for _, w := range s.watchers {
		if w.gone {
			continue
		}
		if w.start > revision {
			return
		}
		living = true
	}
	if living && !s.queue.advance(revision) {
		s.push(item{kind: progress, revision: revision})
	}
}

// Close ends the stream and its watchers.
func (s *Stream) Close() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended() {
		return
	}
	close(s.closed)
	for _, w := range s.watchers {
		h.drop(w)
	}
	clear(s.watchers)
	h.queued.Add(-int64(s.queue.bytes))
	h.pending.Add(-int64(s.queue.events))
	h.streams--
	s.queue = queue{}
}

// ended reports whether the stream is closed. The caller holds h.mu, so it stays so.
func (s *Stream) ended() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}
