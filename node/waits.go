package node

import (
	"sync"
	"time"
)

// waits holds the callers that wait for an answer under a number. It is split
// so that callers on many cores seldom meet.
type waits[T any] struct {
	shards [16]struct {
		sync.Mutex
		byID map[uint64]wait[T]
	}
}

type wait[T any] struct {
	answer   chan T // capacity 1
	deadline time.Time
}

func newWaits[T any]() *waits[T] {
	w := new(waits[T])
	for i := range w.shards {
		w.shards[i].byID = map[uint64]wait[T]{}
	}
	return w
}

// add returns the channel on which the answer to id will come.
func (w *waits[T]) add(id uint64, deadline time.Time) chan T {
	answer := make(chan T, 1)
	s := &w.shards[id%16]
	s.Lock()
	s.byID[id] = wait[T]{answer, deadline}
	s.Unlock()
	return answer
}

// answer wakes the caller of id, if it still waits.
func (w *waits[T]) answer(id uint64, t T) {
	s := &w.shards[id%16]
	s.Lock()
	wait, ok := s.byID[id]
	delete(s.byID, id)
	s.Unlock()
	if ok {
		wait.answer <- t
	}
}

// forget takes back an add.
func (w *waits[T]) forget(id uint64) {
	s := &w.shards[id%16]
	s.Lock()
	delete(s.byID, id)
	s.Unlock()
}

// expire answers all whose deadline has passed.
func (w *waits[T]) expire(now time.Time, t T) {
	for i := range w.shards {
		s := &w.shards[i]
		s.Lock()
		for id, wait := range s.byID {
			if now.After(wait.deadline) {
				delete(s.byID, id)
				wait.answer <- t
			}
		}
		s.Unlock()
	}
}
