package stage

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Weather plays the network and the disks of a stage at random, message by message: far
// more orders of events in a second than package sim's worlds have, which know how long
// things take. A test does some of its own acts between two changes of the weather.
type Weather[In, Out any] struct {
	*Stage[In, Out]
	Rand *rand.Rand
	// Step is how much time passes at most at a time.
	Step time.Duration
}

// Chance is true with probability p.
func (w Weather[In, Out]) Chance(p float64) bool { return w.Rand.Float64() < p }

// Changes does one thing: a message passes, or does so and stays, or gets lost, a disk
// is held or catches up with a part of what waits, or time passes.
func (w Weather[In, Out]) Changes() {
	x := w.Rand.Float64()
	if x < 0.8 && len(w.Wire) > 0 {
		i := w.Rand.IntN(len(w.Wire))
		if w.Chance(0.5) {
			i = w.Rand.IntN(i + 1) // mostly an old one
		}
		e := w.Wire[i]
		if x >= 0.1 {
			w.Wire = slices.Delete(w.Wire, i, i+1)
		}
		if x < 0.7 {
			w.Stage.Receive(e)
		}
		return
	}
	id := w.order[w.Rand.IntN(len(w.order))]
	switch k := w.members[id]; {
	case x >= 0.98:
		w.Wait(time.Duration(1 + w.Rand.Int64N(int64(w.Step))))
	case k.m == nil:
	case !k.held:
		w.Hold(id)
	case w.Chance(0.3):
		k.held = false
		w.Sync(id)
	default:
		w.SyncFirst(id, w.Rand.IntN(len(k.queue)+1))
	}
}

// Crashes takes a member's machine away, and of what its disk has not been forced to
// keep a part. It returns what is left.
func (w Weather[In, Out]) Crashes(id machine.NodeID) []any {
	k := w.members[id]
	w.SyncFirst(id, w.Rand.IntN(len(k.queue)+1))
	w.Crash(id)
	k.durable = k.durable[:k.forced+w.Rand.IntN(len(k.durable)-k.forced+1)]
	k.forced = len(k.durable)
	return w.Durable(id)
}

// Clears lets all disks catch up and all messages arrive, again and again while time
// passes, until done or for n times.
func (w Weather[In, Out]) Clears(n int, done func() bool) bool {
	for range n {
		for _, id := range w.order {
			if k := w.members[id]; k.m != nil {
				k.held = false
				w.Sync(id)
			}
		}
		w.Settle()
		if done() {
			return true
		}
		w.Wait(w.Step)
	}
	return false
}
