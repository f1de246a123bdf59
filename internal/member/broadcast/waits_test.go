package broadcast_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// A member gives the reason why nothing can be ordered: a directory that is new and noted by too
// few, too few connections for a majority, the end. If a majority is there, it says nothing.
func TestWaiting(t *testing.T) {
	for _, tt := range []struct{ members, enough int }{{2, 2}, {3, 2}, {4, 3}} {
		g := newGroup(t, tt.members)
		node := g.nodes[1]
		says := func(when, want string) {
			t.Helper()
			is := func(broadcast.Stats) bool {
				err := node.Waiting()
				return want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want)
			}
			g.until(when, node, is)
		}
		g.broadcast(1, "x")
		says("all are there", "")
		for up := tt.members; up > 1; up-- {
			g.stop(g.last())
			if up-1 >= tt.enough {
				says("a majority is there", "")
			} else {
				says("there is no majority", "waits for a majority of the members")
			}
		}
		g.stop(1)
		if err := node.Waiting(); !errors.Is(err, broadcast.ErrClosed) {
			t.Errorf("a node that was closed waits because of %v, want ErrClosed", err)
		}
	}
}

// last is the highest ID of a member that runs.
func (g *group) last() (last machine.NodeID) {
	for id := range g.nodes {
		last = max(last, id)
	}
	return last
}
