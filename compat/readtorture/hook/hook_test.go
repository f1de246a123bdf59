package hook

import (
	"testing"
	"time"
)

// set has the clock be of a rate, and its first reading at 1 s.
func set(t *testing.T, rate int64) {
	before := ppm
	t.Cleanup(func() { ppm = before; began.Store(0) })
	ppm = rate
	began.Store(0)
	if got := Drift(int64(time.Second)); got != int64(time.Second) {
		t.Fatalf("the first reading is %d", got)
	}
}

func TestDrift(t *testing.T) {
	for _, tt := range []struct{ rate, want int64 }{
		{0, 11e9}, {9000, 11.09e9}, {-9000, 10.91e9}, {300_000, 14e9},
	} {
		set(t, tt.rate)
		if got := Drift(11e9); got != tt.want {
			t.Errorf("rate %d: ten seconds later it reads %d, want %d", tt.rate, got, tt.want)
		}
		for _, reading := range []int64{1e9, 5e9 + 1, 1e12 + 7} {
			kernel := Undrift(reading)
			if d := reading - Drift(kernel); d < -2 || d > 2 {
				t.Errorf("rate %d: %d is read %d off", tt.rate, reading, d)
			}
		}
	}
}

func TestObey(t *testing.T) {
	defer obey("")
	obey("sync=20ms pause=3ms odds=1")
	for range 10 {
		began := time.Now()
		if Disk(); time.Since(began) < 20*time.Millisecond {
			t.Error("the disk is not slow")
		}
	}
	if pauses.Load() != int64(3*time.Millisecond) || odds.Load() != 1 || !Pause() {
		t.Errorf("pauses of %d, once in %d", pauses.Load(), odds.Load())
	}
	obey("")
	if syncs.Load() != 0 || pauses.Load() != 0 || !Pause() {
		t.Error("it goes on when nothing is said")
	}
}
