package redisworld

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// Records are judged in many worlds, and in none in which a server may lose what it has acknowledged:
// by a fault that takes data away, or by the end of its process if it does not sync each write.
func TestRecordsAreJudgedWhereNothingIsLost(t *testing.T) {
	judged, killed := 0, 0
	for seed := range uint64(2000) {
		p := draw(seed)
		if !p.habits.Records {
			continue
		}
		judged++
		for _, f := range p.faults {
			if slices.Contains([]world.Kind{world.Crash, takeover, emptied}, f.Kind) {
				t.Fatalf("seed %d: records are judged, and a server loses data: %v", seed, f)
			}
			for i, sync := range p.syncs {
				if f.Kind != world.Kill || f.Who != fmt.Sprint("s", i) {
					continue
				}
				if killed++; sync > 0 {
					t.Fatalf("seed %d: records are judged, and a server that syncs every %v ends: %v", seed, sync, f)
				}
			}
		}
	}
	if judged < 300 || killed < 100 {
		t.Errorf("in 2000 worlds records are judged in %d, with %d ends of servers", judged, killed)
	}
}
