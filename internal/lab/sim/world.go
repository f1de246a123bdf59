package sim

import (
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
	line   []byte
	recent []string // the last notes, to explain a failure

	counters map[string]int
	timeline *Timeline // nil unless somebody wants to see it
}

// NewWorld returns the world of a seed, at time zero.
func NewWorld(seed uint64) *World {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return &World{Seed: seed, Rand: rand.New(rand.NewChaCha8(key)), trace: fnv.New64a(), counters: map[string]int{}}
}

// Now is the true time.
func (w *World) Now() time.Duration { return w.now }

// After has f called when d has passed. Events of one moment keep their order.
func (w *World) After(d time.Duration, f func()) {
	w.next++
	w.events.push(event{at: w.now + max(d, 0), order: w.next, f: f})
}

// Run lets d of time pass.
func (w *World) Run(d time.Duration) {
	end := w.now + d
	for len(w.events) > 0 && w.events[0].at <= end {
		e := w.events.pop()
		w.now = e.at
		e.f()
	}
	w.now = end
}

// Until runs until ok, for at most d, and reports whether it came to be.
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

// Swarm draws how likely a kind of fault is in this world: not at all in half of
// all worlds, or else up to most. Faults that are always there hide others.
func (w *World) Swarm(most float64) float64 {
	if w.Chance(0.5) {
		return 0
	}
	return most * w.Rand.Float64()
}

// Count adds to a counter of what worlds do: operations, lease periods.
func (w *World) Count(name string, n int) { w.counters[name] += n }

// Note records what happened, in the trace that tells worlds apart.
func (w *World) Note(format string, args ...any) {
	w.line = fmt.Appendf(w.line[:0], "%12.6f ", w.now.Seconds())
	w.line = fmt.Appendf(w.line, format, args...)
	w.trace.Write(w.line)
	w.recent = append(w.recent, string(w.line))
	if len(w.recent) > 4000 {
		w.recent = append([]string(nil), w.recent[2000:]...)
	}
}

// Hash is the trace so far, in a number.
func (w *World) Hash() uint64 { return w.trace.Sum64() }

// Recent returns the last n notes.
func (w *World) Recent(n int) []string { return w.recent[max(0, len(w.recent)-n):] }

// Clues returns the last n notes up to the first violation that a replay marked,
// or else the last n of all.
func (w *World) Clues(n int) []string {
	if w.timeline == nil || w.timeline.clues == nil {
		return w.Recent(n)
	}
	return w.timeline.clues[max(0, len(w.timeline.clues)-n):]
}

type event struct {
	at    time.Duration
	order uint64
	f     func()
}

// eventHeap is a binary heap, the earliest event first. Container/heap would box each
// event twice, and worlds have millions.
type eventHeap []event

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.order < o.order }

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	q := *h
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&q[up]) {
			break
		}
		q[i] = q[up]
		i = up
	}
	q[i] = e
}

func (h *eventHeap) pop() event {
	q := *h
	first, last, n := q[0], q[len(q)-1], len(q)-1
	q[n] = event{} // its function may go
	*h = q[:n]
	i := 0
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if right := down + 1; right < n && q[right].before(&q[down]) {
			down = right
		}
		if !q[down].before(&last) {
			break
		}
		q[i] = q[down]
		i = down
	}
	if n > 0 {
		q[i] = last
	}
	return first
}
