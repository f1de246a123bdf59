package node

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member was away while the present leader moved. It ignores the leader, for no process answers for
// the leader at the address in its log. It learns of the move under another leader.
func TestTheLeaderMovedMeanwhile(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "before")
	c.kill(1)
	l := listen(t)
	moved := "http://" + l.Addr().String()
	two := c.nodes[2].ID()
	c.move(0, two, moved)
	c.kill(2)
	c.cfgs[2].Peers = maps.Clone(c.cfgs[2].Peers)
	c.cfgs[2].Peers["m2"], c.cfgs[2].PeerListener = moved, l
	c.start(2)
	c.eventually("the one that has moved leads", func() bool {
		lead := c.leader()
		if lead != 2 {
			c.nodes[lead].driver.Step(replica.HandOver{To: machine.NodeID(two)})
		}
		return lead == 2
	})
	c.put(2, "k", "after")
	c.start(1)
	if got := c.get(1, "k"); got != "after" {
		t.Errorf("it reads %q", got)
	}
	c.put(1, "k", "again")
}

// Leadership is handed over for a member's sake after that member has refused the leader for a while.
// The pauses between such hand-overs grow.
func TestHowOftenLeadershipIsHandedOver(t *testing.T) {
	var d deafness
	since := time.Unix(1000, 0)
	var at []int
	for s := range 200 {
		if d.due(since, since.Add(time.Duration(s)*time.Second), time.Second) {
			at = append(at, s)
		}
	}
	if want := []int{2, 10, 42, 170}; !slices.Equal(at, want) {
		t.Errorf("handed over after %v election timeouts, want %v", at, want)
	}
}
