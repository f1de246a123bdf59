package kv

import "sync/atomic"

// Compact forgets what happened before revision rev: no later View reads below it. Versions
// that are visible at rev, and the events of rev itself, stay. Memory is given back by
// [Store.Reclaim]. It returns [ErrCompacted] if rev is not above the last compaction, and
// [ErrFutureRevision].
func (s *Store) Compact(rev int64) error {
	if rev <= s.compact {
		return ErrCompacted
	}
	if rev > s.revision {
		return ErrFutureRevision
	}
	s.compact = rev
	return nil
}

// reclaim is the progress of giving memory back.
type reclaim struct {
	next int   // position in the log of the first event that was not looked at
	done int64 // the revision up to which all is done
	pins []*pin
}

// pin holds history for a View.
type pin struct {
	compact  int64
	released atomic.Bool
}

// Reclaim gives memory of compacted history back, looking at about n events, and
// reports whether there is more to do. It changes nothing that can be seen, and does
// nothing below the compact revision of a pinned View.
func (s *Store) Reclaim(n int) (more bool) {
	target := s.reclaimable()
	if target <= s.reclaim.done {
		return false
	}
	s.floor.Store(target) // before the first link is cut, see View.floor
	for ; n > 0; n-- {
		if s.reclaim.next == s.log.n || s.log.at(s.reclaim.next).kv.ModRevision > target {
			s.dropEvents(target)
			s.reclaim.done = target
			return false
		}
		s.cut(s.log.at(s.reclaim.next))
		s.reclaim.next++
	}
	return true
}

// reclaimable is the revision below which nobody may read any more.
func (s *Store) reclaimable() int64 {
	target := s.compact
	held := s.reclaim.pins[:0]
	for _, p := range s.reclaim.pins {
		if !p.released.Load() {
			held = append(held, p)
			target = min(target, p.compact)
		}
	}
	clear(s.reclaim.pins[len(held):])
	s.reclaim.pins = held
	return target
}

// cut drops what version v, which is at or below the target, has superseded. If v
// is the tombstone of a key that stayed deleted, the key goes too; a tombstone
// under newer versions goes when the next of them is compacted.
func (s *Store) cut(v *version) {
	if old := v.prev.Load(); old != nil {
		v.prev.Store(nil)
		s.stats.remove(old)
	}
	if !v.dead() {
		return
	}
	if it, ok := s.keys.Get(text(v.kv.Key)); ok && it.head.Load() == v {
		s.keys.Delete(text(v.kv.Key))
		s.keysMoved = true
		s.stats.remove(v)
		s.stats.removeKey(v.kv.Key)
	}
}

// dropEvents forgets chunks of events below the target.
func (s *Store) dropEvents(target int64) {
	s.reclaim.next -= s.log.drop(s.log.search(target))
}

// Pin gives a View whose history is not reclaimed before release is called, once,
// by any goroutine. A forgotten release keeps all history from then on.
func (s *Store) Pin() (v View, release func()) {
	v = s.View()
	release, _ = s.Hold(v) // nothing is reclaimed beyond the compact revision of now
	return v, release
}

// Hold keeps the history of a View that was made earlier from being reclaimed before release is called, as
// Pin does for a new one. It reports false if some of that history is gone already.
func (s *Store) Hold(v View) (release func(), ok bool) {
	if v.Stale() {
		return nil, false
	}
	p := &pin{compact: v.compact}
	s.reclaim.pins = append(s.reclaim.pins, p)
	return func() { p.released.Store(true) }, true
}
