package memberworld

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

func TestPeace(t *testing.T) {
	world.Batch(t, 1, 1, nil, func(t *testing.T, seed uint64) world.Result {
		return play(t, seed, Spec{Members: 3, Policy: "leader", Storm: 10 * time.Second, Clients: 3})
	})
}

// musts are events that have to happen in many worlds.
var musts = []string{
	"fault: kill", "fault: crash", "fault: delay", "fault: hang", "fault: fail", "fault: no space", "fault: cut",
	"fault: isolate", "fault: reset", "fault: half-open", "fault: freeze", "fault: restart", "fault: clock jump",
	"fault: clock rate", "fault: clock halt", "fault: member", "fault: stranger", "fault: empty", "fault: older",
	"changes: add", "changes: promote", "changes: remove", "changes: replace", "leaders moved",
	"log: saved a snapshot", "log: caught up by a snapshot", "log: sent a snapshot", "ended by itself", "starts that failed",
	"elections", "requests not answered", "leases seen to end", "leases found ended", "leases revoked",
	"leases of a wanted ID", "renewals", "progress told", "events told", "watches judged", "logs compared",
	"acknowledged writes found", "histories decided", "returns of all", "leases on time", "acquisitions", "releases", "loses", "takeovers", "killed", "periods", "done in this period", "compactions", "upgrades", "watches behind a compaction", "reads of what is compacted",
	"calls after a revocation", "calls with a right", "rights found as they were", "clusters begun anew", "acknowledged writes that the survivor did not know",
	"transfers", "statements audited", "demands refused", "changes: move", "changes: static/key", "changes: quorum/key", "changes: cost/key",
}

func TestWorlds(t *testing.T) {
	world.Batch(t, 4, 150, musts, func(t *testing.T, seed uint64) world.Result { return play(t, seed, draw(seed)) })
}

// TestDraw wants that any seed draws a world, with faults of hosts that there are, in the time of
// the storm, and that every kind is drawn. Read leases are off where clocks do as they like, and a
// disk comes back older only where nothing else goes wrong with disks or members.
func TestDraw(t *testing.T) {
	kinds, policies := map[world.Kind]int{}, map[string]int{}
	for seed := range uint64(2000) {
		s := draw(seed)
		policies[s.Policy]++
		older, wild := false, false
		for _, f := range s.Faults {
			kinds[f.Kind]++
			var number int
			if _, err := fmt.Sscanf(f.Who, "m%d", &number); err != nil || number >= s.Members+s.Spares {
				t.Fatalf("seed %d: a fault of nobody among %d and %d: %v", seed, s.Members, s.Spares, f)
			}
			if f.At < 0 || f.At > s.Storm || f.For > 20*time.Second {
				t.Errorf("seed %d: a fault that the storm of %v has no time for: %v", seed, s.Storm, f)
			}
			if rate, err := strconv.ParseFloat(f.With, 64); f.Kind == world.ClockRate && (err != nil || rate <= 0 || !s.Wild && math.Abs(rate-1) > 0.004) {
				t.Errorf("seed %d: clocks that leases do not allow for: %v", seed, f)
			}
			older, wild = older || f.Kind == world.Older, wild || f.Kind == world.ClockHalt
		}
		if wild != s.Wild || s.Wild && s.Policy != "off" {
			t.Errorf("seed %d: clocks are halted: %v, wild: %v, and read leases are %s", seed, wild, s.Wild, s.Policy)
		}
		for _, f := range s.Faults {
			if older && !slices.Contains([]world.Kind{world.Older, world.Delay, world.Reset}, f.Kind) {
				t.Errorf("seed %d: beside an older disk %v", seed, f)
			}
		}
		if s.Clients < 3 || s.Members != 3 && s.Members != 5 || s.Upgraded && s.Wild {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
	for _, kind := range []world.Kind{
		world.Delay, world.Hang, world.Fail, world.NoSpace, world.Freeze, world.Kill, world.Crash, world.Older, world.Empty, world.Restart, world.Cut,
		world.Isolate, world.Reset, world.HalfOpen, world.Stranger, world.ClockJump, world.ClockHalt, world.ClockRate, world.Member,
	} {
		if kinds[kind] < 20 {
			t.Errorf("in 2000 worlds there are %d faults of the kind %q", kinds[kind], kind)
		}
	}
	for _, policy := range []string{"off", "leader", "all", "all/key", "leader/key"} {
		if policies[policy] < 100 {
			t.Errorf("of 2000 worlds %d have the policy %s", policies[policy], policy)
		}
	}
}
