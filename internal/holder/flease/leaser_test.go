package flease

import (
	"math"
	"testing"
	"time"
)

// Times of a claim are whole milliseconds, and none of them too short: not even the longest
// that there is, of which the caller is told that it is too long.
func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Millisecond, time.Millisecond: time.Millisecond,
		time.Second + 1: time.Second + time.Millisecond,
		math.MaxInt64:   math.MaxInt64 - math.MaxInt64%time.Millisecond,
	} {
		if got := roundUp(d); got != want {
			t.Errorf("%d ns become %v, want %v", d, got, want)
		}
	}
}
