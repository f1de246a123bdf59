package memberworld

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// TestUsers has members killed, stopped, isolated and restarted while users' rights come and go.
func TestUsers(t *testing.T) {
	policies := []string{"leader", "all", "leader/key", "off"}
	directed(t, 1, []string{"calls after a revocation", "calls with a right", "rights found as they were"}, func(seed uint64, d drawer) Spec {
		s := Spec{Members: 3, Policy: policies[seed%4], Storm: 24 * time.Second, Clients: 2, Users: true}
		for i := range 6 {
			f := world.Fault{Who: fmt.Sprintf("m%d", i%3), At: time.Duration(6+3*i)*time.Second + d.span(time.Second)}
			switch (int(seed) + i) % 4 {
			case 0:
				f.Kind = world.Kill
			case 1:
				f.Kind, f.With, f.For = world.Isolate, fromMembers, 3*time.Second
			case 2:
				f.Kind, f.For = world.Freeze, d.span(4*time.Second)
			case 3:
				f.Kind = world.Crash
			}
			s.Faults = append(s.Faults, f)
		}
		return s
	})
}

// TestForceNewCluster loses a majority for good, and has the member that is left begin another cluster.
func TestForceNewCluster(t *testing.T) {
	directed(t, 2, []string{"clusters begun anew", "acknowledged writes that the survivor knew", "acknowledged writes that the survivor did not know"}, func(seed uint64, d drawer) Spec {
		return Spec{Members: 3, Policy: "leader", Storm: 5 * time.Second, Clients: 2, Users: seed%2 == 0, Forced: true, Behind: seed%2 == 1}
	})
}
