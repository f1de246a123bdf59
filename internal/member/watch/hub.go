package watch

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// ErrClosed is returned by a stream whose hub or which itself was closed.
var ErrClosed = errors.New("watch: closed")

// errTooManyWatchers is the reason given to a watch that one of the limits of
// Config refuses: cancel other watches, or raise the limit.
var errTooManyWatchers = errors.New("watch: too many watchers")

// Config holds the limits of a Hub. A zero field means its default.
type Config struct {
	// MaxWatchers bounds the watchers of all streams. Default 2,000,000; each
	// takes about 260 bytes and its key.
	MaxWatchers int
	// MaxStreamWatchers bounds the watchers of one stream. Default 200,000.
	MaxStreamWatchers int
	// MaxStreamEvents and MaxStreamBytes bound what waits on one stream for its
	// client. A watcher that does not fit in falls behind: it gets its events
	// from the log, when its stream comes to it. Defaults 4,096 and 4 MiB.
	MaxStreamEvents int
	MaxStreamBytes  int
	// MaxBytes bounds what waits on all streams together. Default 256 MiB.
	MaxBytes int64
	// ChunkEvents and ChunkBytes bound how far a stream reads ahead in the log
	// for the watchers that fell behind. One revision is never cut, so that a
	// chunk may be larger by one revision. Defaults 4,096 and 1 MiB.
	ChunkEvents int
	ChunkBytes  int
}

func (c Config) withDefaults() Config {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&c.MaxWatchers, 2_000_000)
	set(&c.MaxStreamWatchers, 200_000)
	set(&c.MaxStreamEvents, 4096)
	set(&c.MaxStreamBytes, 4<<20)
	set(&c.ChunkEvents, 4096)
	set(&c.ChunkBytes, 1<<20)
	if c.MaxBytes == 0 {
		c.MaxBytes = 256 << 20
	}
	return c
}

// A Hub hands the events of the published views to the watchers.
type Hub struct {
	config  Config
	view    atomic.Pointer[kv.View] // the latest published
	wake    chan struct{}           // something was published
	closing chan struct{}
	closed  sync.Once
	done    chan struct{} // the hub's goroutine has ended
	queued  atomic.Int64  // bytes waiting on all streams
	pending atomic.Int64  // events waiting there
	sent    atomic.Uint64 // events that streams took to send them
	// rights is closed, and another takes its place, when clients may have lost the right to their watches.
	rights atomic.Pointer[chan struct{}]

	// mu guards what follows, and is taken before a stream's mu.
	mu       sync.Mutex
	at       int64 // events up to this revision were handed out
	synced   index // the watchers that have, on their queue, all up to at
	streams  int
	watchers int // living ones, synced or behind
	behind   int
	touched  []*watcher // those with a batch, during dispatch
}

// NewHub starts a hub at a state. Events after it, as later published, are
// handed out live, earlier ones from the log of the latest view. While that is the zero
// View nobody can begin to watch.
func NewHub(view kv.View, c Config) *Hub {
	h := &Hub{
		config:  c.withDefaults(),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		at:      view.Revision(),
	}
	h.view.Store(&view)
	rights := make(chan struct{})
	h.rights.Store(&rights)
	go h.run()
	return h
}

// Rejudge has the Next of each stream that waits return a response with Judge set, once: what clients may watch
// has changed. A stream that has something to send may do without.
func (h *Hub) Rejudge() {
	next := make(chan struct{})
	close(*h.rights.Swap(&next))
}

// Publish tells the hub of a newer state. It stores the view and wakes the hub,
// and so is cheap enough for the goroutine that applies the log. If it is called before
// the writers of that state are answered, a watch "from now" that a client opens after a
// write was acknowledged does not report that write. A node does so but in key order,
// where a write may be answered while one before it, of other keys, must not be seen yet.
func (h *Hub) Publish(view kv.View) {
	h.view.Store(&view)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Close ends the hub and, with ErrClosed, the Next of all its streams.
func (h *Hub) Close() {
	h.closed.Do(func() { close(h.closing) })
	<-h.done
}

// Stats are figures for metrics.
type Stats struct {
	Streams  int
	Watchers int    // watchers of all streams
	Behind   int    // those of them that read from the log at present
	Bytes    int64  // waiting on the queues of all streams
	Pending  int64  // events that wait there
	Events   uint64 // that were taken from all streams so far, to be sent
}

// Stats returns the present figures.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{
		Streams: h.streams, Watchers: h.watchers, Behind: h.behind,
		Bytes: h.queued.Load(), Pending: h.pending.Load(), Events: h.sent.Load(),
	}
}

func (h *Hub) run() {
	defer close(h.done)
	for {
		select {
		case <-h.wake:
			h.mu.Lock()
			h.dispatch()
			h.mu.Unlock()
		case <-h.closing:
			return
		}
	}
}

// dispatch hands out the events published since the last time. The caller holds h.mu. Call
// it before relying on h.at as the published revision.
func (h *Hub) dispatch() {
	view := h.view.Load()
	if view.Revision() <= h.at {
		return
	}
	if h.at == 0 { // there was no state, and so there is no watcher
		h.at = view.Revision()
		return
	}
	events, err := view.Events(h.at + 1)
	if err != nil {
		// Compacted before we came to it, as when a snapshot of another member
		// replaced the store. The streams sort out which watchers that concerns.
		var all []*watcher
		h.synced.all(func(w *watcher) { all = append(all, w) })
		for _, w := range all {
			h.fallBehind(w, max(w.next, h.at+1))
		}
		h.at = view.Revision()
		return
	}
	staged, revision := 0, h.at
	for event := range events {
		if event.KV.ModRevision != revision {
			// Between revisions a batch may end.
			if staged >= h.config.ChunkEvents {
				h.flush()
				staged = 0
			}
			revision = event.KV.ModRevision
		}
		var shared *Event
		h.synced.match(event.KV.Key, func(w *watcher) {
			if !w.wants(&event) {
				return
			}
			if shared == nil {
				shared = &Event{Event: event}
			}
			if w.stage(shared, &h.config) {
				h.touched = append(h.touched, w)
			}
			staged++
		})
	}
	h.flush()
	h.at = view.Revision()
}

// flush moves the staged batches to the queues of their streams.
func (h *Hub) flush() {
	for i, w := range h.touched {
		queued, first := w.stream.offer(w), w.first
		w.batch, w.size, w.first, w.overflow = nil, 0, 0, false
		if !queued {
			h.fallBehind(w, first)
		}
		h.touched[i] = nil
	}
	h.touched = h.touched[:0]
}

// fallBehind takes a watcher out of the live ones; its stream will read the log
// for it from the revision next. The caller holds h.mu.
func (h *Hub) fallBehind(w *watcher, next int64) {
	h.synced.remove(w)
	h.behind++
	w.synced, w.next = false, next
	s := w.stream
	s.mu.Lock()
	s.behind++
	s.push(item{kind: behind, watcher: w})
	s.mu.Unlock()
}
