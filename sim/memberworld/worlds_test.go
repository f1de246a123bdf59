package memberworld

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/sim/world"
)

func TestPeace(t *testing.T) {
	world.Batch(t, 1, 1, nil, func(t *testing.T, seed uint64) world.Result {
		return Play(t, seed, Spec{Members: 3, Policy: "leader", Storm: 10 * time.Second, Clients: 3})
	})
}

// musts are what has to happen in many worlds.
var musts = []string{
	"fault: kill", "fault: crash", "fault: delay", "fault: hang", "fault: fail", "fault: no space", "fault: cut",
	"fault: isolate", "fault: reset", "fault: half-open", "fault: freeze", "fault: restart", "fault: clock jump",
	"fault: clock rate", "fault: clock halt", "fault: member", "fault: stranger", "fault: empty", "fault: older",
	"changes: add", "changes: promote", "changes: remove", "changes: replace",
	"log: saved a snapshot", "log: caught up by a snapshot", "log: sent a snapshot", "ended by itself", "starts that failed",
	"elections", "requests not answered", "leases seen to end", "leases found ended", "leases revoked",
	"leases of a wanted ID", "renewals", "progress told", "events told", "watches judged", "logs compared",
	"acknowledged writes found", "histories decided", "returns of all", "compactions", "upgrades", "watches behind a compaction", "reads of what is compacted",
}

func TestWorlds(t *testing.T) {
	world.Batch(t, 4, 150, musts, func(t *testing.T, seed uint64) world.Result { return Play(t, seed, Draw(seed)) })
}

// TestDraw wants that any seed draws a world, with faults of hosts that there are.
func TestDraw(t *testing.T) {
	for seed := range uint64(2000) {
		s := Draw(seed)
		for _, f := range s.Faults {
			var number int
			if _, err := fmt.Sscanf(f.Who, "m%d", &number); err != nil || number >= s.Members+s.Spares {
				t.Fatalf("seed %d: a fault of nobody among %d and %d: %v", seed, s.Members, s.Spares, f)
			}
		}
	}
}
