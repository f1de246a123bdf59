package flease

import (
	"math"
	"testing"
	"time"
)

// Times of a claim are rounded up to whole milliseconds. The longest Duration does not wrap: the claim
// is refused as too long.
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
