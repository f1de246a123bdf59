package watch

import (
	"context"
	"time"
)

// Next returns the next response to send, waiting for one. Its error is the
// cause of ctx's end, or ErrClosed.
func (s *Stream) Next(ctx context.Context) (Response, error) {
	for {
		if ctx.Err() != nil {
			return Response{}, context.Cause(ctx)
		}
		if len(s.pending) > 0 {
			r := s.pending[0]
			s.pending[0] = Response{}
			s.pending = s.pending[1:]
			s.hub.sent.Add(uint64(len(r.Events)))
			return r, nil
		}
		tick := s.ticks()
		select {
		case <-tick:
			s.reportQuiet()
		case <-s.closed:
			return Response{}, ErrClosed
		default:
		}
		s.mu.Lock()
		// Queue and log take turns, so that neither starves the other.
		if !s.queue.empty() && (s.late.count == 0 || !s.turn) {
			it := s.queue.pop()
			if it.kind == events {
				it.watcher.active = true
			}
			s.mu.Unlock()
			s.turn = true
			if r, ok := s.deliver(it); ok {
				return r, nil
			}
			continue
		}
		if s.late.count > 0 {
			s.mu.Unlock()
			s.turn = false
			s.catchUp()
			continue
		}
		s.idle = true
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-s.rights:
			s.rights = *s.hub.rights.Load() // before the judgement, which no later change may escape
			return Response{WatchID: invalidID, Judge: true}, nil
		case <-tick:
			s.reportQuiet()
		case <-ctx.Done():
		case <-s.closed:
			return Response{}, ErrClosed
		case <-s.hub.closing:
			return Response{}, ErrClosed
		}
	}
}

// deliver makes the response of an item taken from the queue.
func (s *Stream) deliver(it item) (r Response, ok bool) {
	w := it.watcher
	r = Response{WatchID: invalidID, Revision: it.revision}
	if w != nil {
		r.WatchID, r.PrevKV, r.Fragment = w.id, w.prevKV, w.fragment
	}
	switch it.kind {
	case created:
		r.Created = true
		<-s.controls
	case refused:
		r.Created, r.Canceled, r.CancelReason = true, true, it.reason
		<-s.controls
	case canceled:
		r.Canceled = true
		if w.late {
			s.unlate(w)
		}
		<-s.controls
	case expelled:
		r.Canceled, r.CancelReason = true, it.reason
		if w.late {
			s.unlate(w)
		}
	case events:
		r.Events = it.events
		s.hub.queued.Add(-int64(it.size))
		s.hub.pending.Add(-int64(len(it.events)))
		s.hub.sent.Add(uint64(len(it.events)))
	case behind:
		// All that was queued for it is delivered: the log may go on from here.
		w.late = true
		s.late.add(w)
		return r, false
	}
	return r, true
}

// ticks is the channel of the progress interval, from the first watcher on.
func (s *Stream) ticks() <-chan time.Time {
	if s.progress <= 0 {
		return nil
	}
	if s.ticker == nil {
		s.ticker = time.NewTicker(s.progress) // the garbage collector stops it
	}
	return s.ticker.C
}

// reportQuiet queues a progress report for each watcher that asked for them and
// got nothing since the last time.
func (s *Stream) reportQuiet() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dispatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watchers {
		if !w.progress {
			continue
		}
		if !w.active && w.synced && w.start <= h.at {
			s.push(item{kind: progress, watcher: w, revision: h.at})
		}
		w.active = false
	}
}
