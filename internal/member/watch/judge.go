package watch

import (
	"context"
)

// Refuse answers, in its turn, a watch that its client may not have, for a reason. Errors are
// those of Create.
func (s *Stream) Refuse(ctx context.Context, reason string) error {
	return s.answer(ctx, func() { s.push(item{kind: refused, revision: s.hub.at, reason: reason}) })
}

// Judge cancels the watchers whose ranges their client may not watch any more, each with the
// reason that permit returns for it, and returns their ids. Events that were found for them before may
// still come from Next, until it says that the watcher is canceled: they are not for the client.
// The goroutine that calls Next calls this, too. Ranges are as in etcd's requests.
func (s *Stream) Judge(permit func(key, end []byte) (reason string)) (expelledIDs []int64) {
	s.mu.Lock()
	watchers := make([]*watcher, 0, len(s.watchers))
	for _, w := range s.watchers {
		watchers = append(watchers, w)
	}
	s.mu.Unlock()
	for _, w := range watchers { // without a lock: they may be many
		if reason := permit(w.span.etcd()); reason != "" && s.expel(w, reason) {
			expelledIDs = append(expelledIDs, w.id)
		}
	}
	return expelledIDs
}

// expel cancels a watcher, unless it is gone.
func (s *Stream) expel(w *watcher, reason string) bool {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[w.id] != w || w.gone {
		return false
	}
	delete(s.watchers, w.id)
	h.drop(w)
	s.push(item{kind: expelled, revision: h.at, watcher: w, reason: reason})
	return true
}

// etcd is the range in etcd's notation.
func (s span) etcd() (key, end []byte) {
	switch {
	case s.single:
		return []byte(s.start), nil
	case s.end == "":
		return []byte(s.start), []byte{0}
	}
	return []byte(s.start), []byte(s.end)
}
