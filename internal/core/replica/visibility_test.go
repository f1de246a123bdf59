package replica

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Entries are released in the order that the log has decided for.
func TestWhichOrderCounts(t *testing.T) {
	rl := &readLeases{}
	if _, strict := rl.order().(strictOrder); !strict {
		t.Errorf("while key order is off, entries are released in %T", rl.order())
	}
	rl.keys.on = true
	if got := rl.order(); got != visibility(&rl.keys) {
		t.Errorf("while key order is on, entries are released in %T", got)
	}
}

// The electorate is that of the newest membership, and each membership counts until it is released (R23).
func TestElectorate(t *testing.T) {
	before := quorumlease.Membership{Index: 1, Voters: []machine.NodeID{1, 2}, Learners: []machine.NodeID{4}}
	after := quorumlease.Membership{Index: 5, Voters: []machine.NodeID{1, 3}}
	var e electorate
	if both := (quorumlease.Memberships{before, after}); !e.follow(both) || e.follow(both) {
		t.Error("a change of the memberships is not reported once")
	}
	if !e.votes(3) || e.votes(2) || e.votes(4) {
		t.Errorf("the voters are %v, want those of the newest membership", e.voters)
	}
	if got := slices.Sorted(slices.Values(e.everyone)); !slices.Equal(got, []machine.NodeID{1, 2, 3, 4}) {
		t.Errorf("everyone is %v, want the members of both memberships", got)
	}
	if now, fewer := e.once(4); len(now) != 2 || fewer {
		t.Errorf("before the change is released, %d memberships count, and that there are fewer is %v", len(now), fewer)
	}
	if now, fewer := e.once(5); len(now) != 1 || !fewer {
		t.Errorf("once the change is released, %d memberships count, and that there are fewer is %v", len(now), fewer)
	}
}
