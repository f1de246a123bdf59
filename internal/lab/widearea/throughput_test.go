package widearea

import (
	"math"
	"reflect"
	"testing"
)

// Where every replica reads by itself the processors are the limit, and nothing else:
// each answers as many as it has time for.
func TestThroughput(t *testing.T) {
	rate := func(policy string, reads bool, asks Asks) Rate {
		r, err := throughput{Seed: 1, Runs: 1, Policy: policy, Reads: reads, Asks: asks}.play()
		if err != nil {
			t.Fatal(err)
		}
		if r.Stale != 0 || r.Mean <= 0 || r.Leader > 1.01 || r.Others > 1.01 {
			t.Errorf("%+v", r)
		}
		return r
	}
	most := float64(len(Sites)) / ServiceTimes.Request.Seconds()
	all := rate("all/key", true, Anything)
	if all.Mean < 0.85*most || all.Mean > most {
		t.Errorf("all hold all keys: %.0f reads/s, want nearly %.0f", all.Mean, most)
	}
	if !*deep {
		return
	}
	aware, oblivious := rate("static/key", true, Held), rate("static/key", true, Anything)
	if aware.Mean < 0.9*all.Mean || oblivious.Mean > aware.Mean {
		t.Errorf("a quorum holds each key: %.0f reads/s where it is held and %.0f anywhere; %.0f if all hold it", aware.Mean, oblivious.Mean, all.Mean)
	}
	if lead := rate("leader", true, TheLeader); lead.Mean > 1.02*most/float64(len(Sites)) || lead.Leader < 0.95 || lead.Others > 0.1 {
		t.Errorf("the leader alone: %+v", lead)
	}
	writes := rate("static/key", false, Held)
	if bound := float64(len(Sites)) / (ServiceTimes.Request.Seconds() + float64(len(Sites))*ServiceTimes.Entry.Seconds()); writes.Mean > bound || writes.Mean < 0.5*bound {
		t.Errorf("%.0f writes/s, want less than %.0f, and not by much", writes.Mean, bound)
	}
	if rate("leader/key", false, Anything).Mean == rate("all/key", false, Anything).Mean {
		t.Error("all replicas' leases make no difference to writes: are they in force?")
	}
	if again := rate("static/key", false, Held); !reflect.DeepEqual(again, writes) {
		t.Errorf("the same seed gave %+v and then %+v", writes, again)
	}
}

func TestFifths(t *testing.T) {
	const want = "range:key000000000..key000002000 = 1,2,3; range:key000002000..key000004000 = 2,3,4; " +
		"range:key000004000..key000006000 = 2,3,4; range:key000006000..key000008000 = 2,4,5; " +
		"range:key000008000..key000010000 = 1,2,5; default = 2"
	if got := fifths(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestInterval(t *testing.T) {
	mean, low, high := interval([]float64{8, 10, 12})
	if half := 4.303 * 2 / math.Sqrt(3); mean != 10 || math.Abs(mean-low-half) > 1e-9 || math.Abs(high-mean-half) > 1e-9 {
		t.Errorf("of 8, 10, 12: %v from %v to %v", mean, low, high)
	}
	if mean, low, high := interval([]float64{7}); mean != 7 || low != 7 || high != 7 {
		t.Errorf("of one: %v from %v to %v", mean, low, high)
	}
}
