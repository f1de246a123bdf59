package sim

import (
	"slices"
	"testing"
	"time"
)

// A wait for something ends when it has come to be, or with its time, and says which.
func TestUntil(t *testing.T) {
	for comes, want := range map[time.Duration]bool{0: true, 500 * time.Millisecond: true, time.Second: true, 1100 * time.Millisecond: false} {
		w := NewWorld(1)
		is := false
		w.After(comes, func() { is = true })
		got := w.Until(time.Second, func() bool { return is })
		if at := min(max(comes, 10*time.Millisecond), time.Second); got != want || w.Now() != at {
			t.Errorf("what comes after %v has come to be within a second: %v, at %v; want %v, at %v", comes, got, w.Now(), want, at)
		}
	}
}

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
