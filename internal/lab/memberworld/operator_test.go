package memberworld

import (
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// A member that has lost its data is replaced, whatever job its operator has begun by then: one that
// waits for an answer of that very member, or one that nothing may be wrong for.
func TestTheLostAreReplacedFirst(t *testing.T) {
	for _, job := range []string{"off", "move"} {
		musts := []string{"fault: empty", "members that noticed that they lost data", "changes: replace", "changes: " + job}
		directed(t, 1, musts, func(uint64, drawer) Spec {
			return Spec{Members: 3, Policy: "leader", Storm: 12 * time.Second, Clients: 3, Faults: []world.Fault{
				{Who: "m0", At: 4 * time.Second, Kind: world.Empty},
				{Who: "m0", At: 4*time.Second + time.Millisecond, Kind: world.Member, With: job},
			}}
		})
	}
}

// A world ends when its judge has found something. In this one a member that has lost its data is
// not replaced, for its operator does not hear of that, and processes go on to take leases.
func TestAWorldThatHasFailedEnds(t *testing.T) {
	cryptotest.SetGlobalRandom(t, 1)
	bubble.Test(t, func(t *testing.T) {
		w := world.Rehearse()
		c := newCluster(w, Spec{
			Members: 3, Policy: "leader", Storm: 10 * time.Second, Clients: 1, Lockers: 1,
			Script: func(c *cluster) {
				c.pause(5 * time.Second)
				c.host("m0").end(nil, empties)
			},
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.play()
		}()
		select {
		case <-ended:
		case <-time.After(10 * time.Minute): // the bubble says that something was left running
			return
		}
		if found := w.Failures(); !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, "member m0 does not serve") }) {
			t.Errorf("its judge has found %q", found)
		}
	})
}
