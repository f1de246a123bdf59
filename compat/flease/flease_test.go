package main

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// TestMeasure has each contestant that is here do each case for a moment.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("the peers' first silence takes half a minute")
	}
	for name := range contestants {
		if name == "etcd" && !server.Has(server.Etcd) {
			continue
		}
		rs, err := measure(t.Context(), name, 4, 200*time.Millisecond)
		if err != nil && name == "zookeeper" {
			t.Logf("%s: %v", name, err)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, r := range rs {
			if r.Rate <= 0 || r.P99 < r.P50 || r.CPU <= 0 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestSummarize: the median of each case of each contestant.
func TestSummarize(t *testing.T) {
	m := summarize([]result{
		{Contestant: "a", Case: "turn", Rate: 3}, {Contestant: "b", Case: "turn", Rate: 9},
		{Contestant: "a", Case: "turn", Rate: 1}, {Contestant: "a", Case: "turn", Rate: 2},
	})
	if len(m) != 2 || m[0].Rate != 2 || m[1].Rate != 9 {
		t.Errorf("%+v", m)
	}
}
