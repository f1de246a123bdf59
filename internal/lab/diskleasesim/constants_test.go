package diskleasesim

import (
	"flag"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/sim"
)

var deep = flag.Bool("deep", false, "play as many worlds as it takes to meet what is rare")

// TestConstants shows the paper's constants from both sides: the property fails when they are a
// little smaller, and never with them.
func TestConstants(t *testing.T) {
	worlds := 60
	if *deep {
		worlds = 300
	}
	for _, c := range []struct {
		name                        string
		constants                   constants
		overlap, intrusion, unrenew bool // happen: Properties 1.1, 2.1, 2.2
	}{
		{"the paper's", constants{wait: 60, readBack: 20}, false, false, false},
		{"the paper's, renewed early", constants{wait: 60, readBack: 20, early: true}, false, false, false},
		{"the paper's without renewal", constants{wait: 50, readBack: 20, never: true}, false, false, false},
		{"the paper's for known delays", constants{wait: 50, readBack: 20, known: true}, false, false, false},
		{"a read-back after 1.9 δ", constants{wait: 60, readBack: 19}, true, false, true},
		{"a read-back after 1 δ", constants{wait: 60, readBack: 10}, true, false, true},
		{"a wait of Δ + 5 δ with renewals", constants{wait: 50, readBack: 20}, false, true, true},
		{"a wait of Δ + 1 δ without renewal", constants{wait: 10, readBack: 20, never: true}, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got judge
			for seed := range uint64(worlds) {
				j := paper(sim.NewWorld(seed), c.constants)
				got.overlaps += j.overlaps
				got.intrusions += j.intrusions
				got.unrenewed += j.unrenewed
				got.acquired += j.acquired + j.renewed
			}
			if !*deep && got.overlaps+got.intrusions+got.unrenewed == 0 {
				return // too few worlds to meet rare events
			}
			t.Logf("%d overlaps, %d intrusions and %d failed renewals in %d periods", got.overlaps, got.intrusions, got.unrenewed, got.acquired)
			if (got.overlaps > 0) != c.overlap || (got.intrusions > 0) != c.intrusion || (got.unrenewed > 0) != c.unrenew {
				t.Errorf("want overlaps %v, intrusions %v, failed renewals %v", c.overlap, c.intrusion, c.unrenew)
			}
		})
	}
}

// TestFailAware shows the purpose of the checks made after each access: arbitrary stalls cost
// the lease's liveness, and without the checks its safety.
func TestFailAware(t *testing.T) {
	worlds := 15
	if *deep {
		worlds = 80
	}
	for _, trusting := range []bool{false, true} {
		var got judge
		for seed := range uint64(worlds) {
			j := shipped(sim.NewWorld(seed), false, trusting)
			got.overlaps += j.overlaps
			got.acquired += j.acquired
		}
		t.Logf("trusting: %v: %d overlaps in %d tenures", trusting, got.overlaps, got.acquired)
		// That trust does harm takes more worlds to show.
		if got.overlaps > 0 && !trusting || got.overlaps == 0 && trusting && *deep {
			t.Errorf("trusting: %v: %d overlaps", trusting, got.overlaps)
		}
	}
}
