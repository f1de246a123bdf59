package sim

import (
	"container/heap"
	crand "crypto/rand"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// World is one seed's course of events. Its time is true time: no host sees it.
type World struct {
	Seed uint64
	Rand *rand.Rand

	now    time.Duration
	events eventHeap
	next   uint64
	trace  hash.Hash64
	recent []string // the last notes, for whoever has to explain a failure
}

// NewWorld returns the world of a seed, at time zero.
func NewWorld(seed uint64) *World {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	w := &World{Seed: seed, Rand: rand.New(rand.NewChaCha8(key)), trace: fnv.New64a()}
	key[31] = 1
	crand.Reader = rand.NewChaCha8(key)
	return w
}

// Now is the true time.
func (w *World) Now() time.Duration { return w.now }

// After has f called when d has passed. Events of one moment keep their order.
func (w *World) After(d time.Duration, f func()) {
	w.next++
	heap.Push(&w.events, event{at: w.now + max(d, 0), order: w.next, f: f})
}

// Run lets d of time pass.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.f()
	}
	w.now = end
}

// Until runs until ok, for at most d, and tells whether it came to be.
func (w *World) Until(d time.Duration, ok func() bool) bool {
	end := w.now + d
	for !ok() {
		if w.now >= end {
			return false
		}
		w.Run(10 * time.Millisecond)
	}
	return true
}

// Between draws a duration from [low, high).
func (w *World) Between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(w.Rand.Int64N(int64(high-low)))
}

// Chance is true with probability p.
func (w *World) Chance(p float64) bool { return w.Rand.Float64() < p }

// Note records what happened, in the trace that tells worlds apart.
func (w *World) Note(format string, args ...any) {
	line := fmt.Sprintf("%12.6f ", w.now.Seconds()) + fmt.Sprintf(format, args...)
	w.trace.Write([]byte(line))
	w.recent = append(w.recent, line)
	if len(w.recent) > 4000 {
		w.recent = append([]string(nil), w.recent[2000:]...)
	}
}

// Hash is the trace so far, in a number.
func (w *World) Hash() uint64 { return w.trace.Sum64() }

// Recent returns the last n notes.
func (w *World) Recent(n int) []string { return w.recent[max(0, len(w.recent)-n):] }

type event struct {
	at    time.Duration
	order uint64
	f     func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
