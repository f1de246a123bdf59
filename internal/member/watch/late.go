package watch

import (
	"errors"
	"iter"
	"math"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// joinBatch is how many watchers become synced under one hold of the hub's lock.
const joinBatch = 1000

// catchUp reads a chunk of the log for the watchers that are behind, and makes
// those synced that have reached its end.
func (s *Stream) catchUp() {
	view := s.hub.view.Load()
	from := int64(math.MaxInt64)
	s.late.all(func(w *watcher) { from = min(from, w.next) })
	upto := view.Revision()
	if from <= upto {
		events, err := view.Events(from)
		if errors.Is(err, kv.ErrCompacted) {
			s.cancelCompacted(view.CompactRevision())
			return
		}
		upto = s.read(view, events)
	}
	s.late.all(func(w *watcher) { w.next = max(w.next, upto+1) })
	if upto == view.Revision() {
		s.join(upto)
	}
}

// read turns events into pending responses, one a watcher, until the chunk is
// full, and returns the last revision that it read.
func (s *Stream) read(view *kv.View, log iter.Seq[kv.Event]) (upto int64) {
	c := &s.hub.config
	var touched []*watcher
	scanned, size := 0, 0
	upto = view.Revision()
	revision := int64(0)
	for event := range log {
		if event.KV.ModRevision != revision {
			if scanned >= scanFactor*c.ChunkEvents || size >= c.ChunkBytes {
				upto = revision
				break
			}
			revision = event.KV.ModRevision
		}
		scanned++
		var shared *Event
		s.late.match(event.KV.Key, func(w *watcher) {
			if !w.wants(&event) {
				return
			}
			if shared == nil {
				shared = &Event{Event: event}
			}
			if len(w.batch) == 0 {
				touched = append(touched, w)
			}
			w.batch = append(w.batch, shared)
			size += shared.size()
			scanned += scanFactor - 1
		})
	}
	for _, w := range touched {
		s.pending = append(s.pending, Response{
			WatchID: w.id, Revision: upto, Events: w.batch, PrevKV: w.prevKV, Fragment: w.fragment,
		})
		w.batch = nil
	}
	if len(touched) > 0 {
		s.mu.Lock()
		for _, w := range touched {
			w.active = true
		}
		s.mu.Unlock()
	}
	return upto
}

// scanFactor is how much cheaper an event is to pass over than to deliver.
const scanFactor = 16

// join makes the watchers synced that have all events up to a revision, unless
// the hub has gone on in the meantime.
func (s *Stream) join(upto int64) {
	ready := make([]*watcher, 0, s.late.count)
	s.late.all(func(w *watcher) { ready = append(ready, w) })
	h := s.hub
	for len(ready) > 0 {
		n := min(len(ready), joinBatch)
		if !s.joinSome(h, ready[:n], upto) {
			return
		}
		ready = ready[n:]
	}
}

func (s *Stream) joinSome(h *Hub, ready []*watcher, upto int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at > upto {
		return false
	}
	s.sync(ready)
	// The log may have been ahead of the hub: the reported revision must not be behind the
	// events that the watchers just got.
	h.dispatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportAsked()
	return true
}

// sync makes the watchers live. The caller holds h.mu.
func (s *Stream) sync(ready []*watcher) {
	h := s.hub
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range ready {
		s.unlate(w)
		if w.gone {
			continue
		}
		w.synced = true
		h.synced.add(w)
		h.behind--
		s.behind--
	}
}

func (s *Stream) unlate(w *watcher) {
	w.late = false
	s.late.remove(w)
}

// cancelCompacted ends the watchers whose next events are compacted away.
func (s *Stream) cancelCompacted(compacted int64) {
	var lost []*watcher
	s.late.all(func(w *watcher) {
		if w.next < compacted {
			lost = append(lost, w)
		}
	})
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dispatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range lost {
		s.unlate(w)
		if w.gone {
			continue // its cancellation is on the queue
		}
		h.drop(w)
		s.pending = append(s.pending, Response{
			WatchID: w.id, Revision: h.at, Canceled: true, CompactRevision: compacted,
		})
	}
	s.reportAsked()
}
