package memberworld

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// TestStrangers has strangers of all ways at all members.
func TestStrangers(t *testing.T) {
	var faults []world.Fault
	for i, how := range strangers {
		for m := range 3 {
			faults = append(faults, world.Fault{
				Who: fmt.Sprintf("m%d", m), At: time.Duration(2+4*i+m) * time.Second, Kind: world.Stranger, With: how,
			})
		}
	}
	faults = append(faults, world.Fault{Who: "m0", At: 22 * time.Second, Kind: world.Crash})
	world.Batch(t, 1, 1, []string{"fault: stranger"}, func(t *testing.T, seed uint64) world.Result {
		return play(t, seed, Spec{Members: 3, Policy: "leader", Storm: 25 * time.Second, Clients: 2, Faults: faults})
	})
}
