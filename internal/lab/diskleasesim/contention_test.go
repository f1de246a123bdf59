package diskleasesim

import (
	"testing"
	"time"
)

func TestContend(t *testing.T) {
	const term, delay = 15 * time.Second, 5 * time.Millisecond
	for _, n := range []int{1, 2, 10, 100} {
		c := Contend(1, n, term, delay)
		t.Logf("%+v", c)
		if limit := (term + 6*delay + term/50*2 + 6*delay).Seconds(); c.TakeOver > limit {
			t.Errorf("%d contenders: taken over %v s after the holder's death; want it within Δ+6δ, a poll and the accesses: %v s", n, c.TakeOver, limit)
		}
		if n == 1 && c.First > (5*delay).Seconds() {
			t.Errorf("a free lease takes one contender %v s, want at most 5δ", c.First)
		}
	}
}
