package memberworld

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// A cluster goes through all policies of read leases and its members move, one after the other, while
// clients work and one of them makes requests that no member may grant.
func TestChanges(t *testing.T) {
	var faults []world.Fault
	at := 3 * time.Second
	for i, policy := range quorumlease.Policies {
		faults = append(faults, world.Fault{Who: []string{"m0", "m1", "m2"}[i%3], At: at, Kind: world.Member, With: string(policy)})
		at += 2 * time.Second
	}
	for i, who := range []string{"m2", "m0", "m1"} {
		faults = append(faults,
			world.Fault{Who: who, At: at, Kind: world.Member, With: "move"},
			world.Fault{Who: who, At: time.Duration(2+5*i) * time.Second, Kind: world.Stranger, With: asksTooMuch})
		at += 4 * time.Second
	}
	musts := []string{"changes: move", "transfers", "statements audited", "demands refused"}
	for _, policy := range quorumlease.Policies {
		musts = append(musts, "changes: "+string(policy))
	}
	world.Batch(t, 1, 1, musts, func(t *testing.T, seed uint64) world.Result {
		return play(t, seed, Spec{Members: 3, Policy: "leader", Storm: at + 2*time.Second, Clients: 3, Accountants: 2, Readers: true, Faults: faults})
	})
}
