package fleasescale

import (
	"testing"
	"time"
)

func small(peers int) Run {
	return Run{Seed: 1, Peers: peers, Resources: 10_000_000, UnderWay: 16, Costs: ServiceTimes, Time: 20 * time.Millisecond}
}

// TestItGrows: more peers grant more leases, though each shares fewer frames.
func TestItGrows(t *testing.T) {
	var rates []Rate
	for _, n := range []int{3, 12, 48} {
		r, err := small(n).Play()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if r.PerSecond == 0 || r.Busiest > 1.05 || r.Ops < 1 || r.Latency <= 0 {
			t.Errorf("%+v", r)
		}
		rates = append(rates, r)
	}
	if rates[1].PerSecond < 1.3*rates[0].PerSecond || rates[2].PerSecond < 2*rates[1].PerSecond {
		t.Errorf("3, 12 and 48 peers grant %.0f, %.0f and %.0f leases a second", rates[0].PerSecond, rates[1].PerSecond, rates[2].PerSecond)
	}
}

func TestASeedAlwaysGivesTheSame(t *testing.T) {
	a, err := small(5).Play()
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := small(5).Play(); a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
}
