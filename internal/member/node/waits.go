package node

import (
	"sync"
	"sync/atomic"
	"time"
)

// waits holds the callers that wait for an answer under a number. It is split
// so that callers on many cores seldom meet.
type waits[T any] struct {
	cost   atomic.Int64 // of all items
	shards [16]struct {
		sync.Mutex
		byID map[uint64]wait[T]
	}
}

type wait[T any] struct {
	answer chan T // capacity 1; nil once the caller has gone
	since  time.Time
	cost   int64
}

func newWaits[T any]() *waits[T] {
	w := new(waits[T])
	for i := range w.shards {
		w.shards[i].byID = map[uint64]wait[T]{}
	}
	return w
}

// add returns the channel on which the answer to id will come. An item that costs something
// stays until it is answered, even if the caller goes.
func (w *waits[T]) add(id uint64, cost int64) chan T {
	answer := make(chan T, 1)
	w.cost.Add(cost)
	s := &w.shards[id%16]
	s.Lock()
	s.byID[id] = wait[T]{answer, time.Now(), cost}
	s.Unlock()
	return answer
}

// answer wakes the caller of id, if it still waits.
func (w *waits[T]) answer(id uint64, t T) {
	s := &w.shards[id%16]
	s.Lock()
	wait := s.byID[id]
	delete(s.byID, id)
	s.Unlock()
	w.cost.Add(-wait.cost)
	if wait.answer != nil {
		wait.answer <- t
	}
}

// number returns how many callers wait.
func (w *waits[T]) number() (n int) {
	for i := range w.shards {
		s := &w.shards[i]
		s.Lock()
		n += len(s.byID)
		s.Unlock()
	}
	return n
}

// forget notes that the caller of id has gone.
func (w *waits[T]) forget(id uint64) {
	s := &w.shards[id%16]
	s.Lock()
	defer s.Unlock()
	if wait, ok := s.byID[id]; ok {
		w.left(s.byID, id, wait)
	}
}

// left notes that the caller has gone. The shard is locked.
func (w *waits[T]) left(byID map[uint64]wait[T], id uint64, wait wait[T]) {
	if wait.cost == 0 {
		delete(byID, id)
		return
	}
	wait.answer = nil
	byID[id] = wait
}

// expire answers the callers that have waited since before a time.
func (w *waits[T]) expire(before time.Time, answer func(since time.Time) T) {
	for i := range w.shards {
		s := &w.shards[i]
		s.Lock()
		for id, wait := range s.byID {
			if wait.answer != nil && wait.since.Before(before) {
				wait.answer <- answer(wait.since)
				w.left(s.byID, id, wait)
			}
		}
		s.Unlock()
	}
}
