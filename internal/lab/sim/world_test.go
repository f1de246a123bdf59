package sim

import (
	"slices"
	"testing"
	"time"
)

// Events come in the order of their times, those of one moment in the order in which
// they were scheduled, whatever else is scheduled meanwhile.
func TestEventsInOrder(t *testing.T) {
	w := NewWorld(1)
	type event struct {
		at time.Duration
		n  int
	}
	var want, got []event
	n := 0
	var schedule func(int)
	schedule = func(most int) {
		for range w.Rand.IntN(most) {
			n++
			e := event{w.Now() + time.Duration(w.Rand.IntN(8)), n}
			want = append(want, e)
			w.After(e.at-w.Now(), func() {
				if w.Now() != e.at {
					t.Errorf("event %d comes at %d, want %d", e.n, w.Now(), e.at)
				}
				got = append(got, e)
				schedule(3)
			})
		}
	}
	schedule(200)
	w.Run(time.Microsecond)
	slices.SortFunc(want, func(a, b event) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.n - b.n
	})
	if len(got) < 300 || !slices.Equal(got, want) {
		t.Errorf("%d events came as\n%v, want\n%v", len(got), got, want)
	}
}
