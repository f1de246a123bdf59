package asyncleasesim

import (
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"math/rand/v2"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

var storms = stage.NewStorms(2000)

// TestWeather plays a few requests under random orders of messages, writes and crashes,
// without regard to time.
func TestWeather(t *testing.T) { storms.Play(t, weather) }

func weather(t *testing.T, r *rand.Rand) {
	th := newTheater(t, []int{3, 3, 4, 5, 2}[r.IntN(5)])
	w := stage.Weather[asynclease.Input, asynclease.Verdict]{Stage: th.Stage, Rand: r, Step: 3 * retry}
	some := func() machine.NodeID { return th.ids[r.IntN(len(th.ids))] }
	asked := map[machine.NodeID]uint64{} // in this life
	crash := 0.03 * r.Float64()
	near := uint64(1)
	for range 50 + r.IntN(200) {
		switch x := r.Float64(); {
		case x < crash:
			id := some()
			records := w.Crashes(id)
			th.judge.onCrash(id)
			th.start(id, records)
			asked[id] = 0
		case x < crash+0.05:
			id, first := some(), max(3, near+r.Uint64N(8))-2 // some of it forgotten
			asked[id]++
			th.ask(id, asked[id], first, first+r.Uint64N(5))
		case x < crash+0.08:
			if id := some(); asked[id] > 0 {
				th.giveBack(id, 1+r.Uint64N(asked[id]), near+r.Uint64N(10))
			}
		case x < crash+0.09:
			if w.Chance(0.3) {
				near++
			}
			th.forget(some(), near)
		default:
			w.Changes()
		}
	}
	n := len(th.judge.invocations)
	if !w.Clears(20, func() bool { return th.judge.waiting(n) == nil }) {
		t.Error(th.judge.waiting(n))
	}
	if err := th.judge.Err(); err != nil {
		t.Error(err)
	}
}
