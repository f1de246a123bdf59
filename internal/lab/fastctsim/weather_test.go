package fastctsim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

var storms = stage.NewStorms(2000)

// TestWeather plays a few instances under random orders of messages, writes, crashes
// and suspicions, without regard to time.
func TestWeather(t *testing.T) { storms.Play(t, weather) }

func weather(t *testing.T, r *rand.Rand) {
	n := []int{3, 3, 3, 4, 5, 2}[r.IntN(6)]
	chance := func(p float64) bool { return r.Float64() < p }
	th := newTheater(t, n, fastct.Config{Plain: chance(0.1), Spread: chance(0.5), Lambda: 1 + r.Uint64N(4), Fixed: chance(0.5), Prefetch: chance(0.3)})
	if rewrite := 0.05 * r.Float64(); chance(0.5) {
		th.rewrites = func() bool { return chance(rewrite) }
	}
	w := stage.Weather[fastct.Input, fastct.Outcome]{Stage: th.Stage, Rand: r, Step: 3 * retry}
	instances := 1 + r.Uint64N(3)
	some := func() machine.NodeID { return th.ids[r.IntN(n)] }
	proposes := func(id machine.NodeID, cn uint64) {
		if _, ok := th.members[id].Decision(cn); !ok && !th.proposed[id][cn] {
			th.proposed[id][cn] = true
			th.propose(cn, fmt.Sprintf("%d.%d.%d", id, th.lives[id], cn), id)
		}
	}
	crash, suspect := 0.02*r.Float64(), 0.04*r.Float64()
	for range 50 + r.IntN(250) {
		switch x := r.Float64(); {
		case x < crash:
			id := some()
			th.start(id, w.Crashes(id))
		case x < crash+suspect:
			if id, of := some(), some(); chance(0.6) {
				th.suspect(id, of)
			} else {
				th.trust(id, of)
			}
		case x < crash+suspect+0.05:
			proposes(some(), 1+r.Uint64N(instances))
		default:
			w.Changes()
		}
	}
	for _, id := range th.ids {
		th.trust(id, th.ids...)
		for cn := range instances {
			proposes(id, cn+1)
		}
	}
	missing := func() error {
		for _, id := range th.ids {
			for cn := range instances {
				if _, ok := th.members[id].Decision(cn + 1); !ok {
					return fmt.Errorf("termination: member %d has not decided instance %d", id, cn+1)
				}
			}
		}
		return nil
	}
	if !w.Clears(40, func() bool { return missing() == nil }) {
		t.Error(missing())
	}
	for _, id := range th.ids {
		for _, r := range th.members[id].Refusals() {
			t.Errorf("member %d refuses what member %d has sent: %v", id, r.From, r.Err)
		}
	}
	if err := th.judge.Err(); err != nil {
		t.Error(err)
	}
}
