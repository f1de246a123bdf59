package quorumlease

import (
	"errors"
	"strings"
	"testing"
)

// Each policy's meaning and name.
func TestPolicies(t *testing.T) {
	if len(Policies) != 8 {
		t.Errorf("there are %d policies", len(Policies))
	}
	for _, c := range []struct {
		policy                 Policy
		name                   string
		byKey, placed, planned bool
		leader, follower       bool // asks for promises
	}{
		{Off, "off", false, false, false, false, false},
		{Leader, "leader", false, false, false, true, false},
		{All, "all", false, false, false, true, true},
		{LeaderByKey, "leader/key", true, false, false, true, false},
		{AllByKey, "all/key", true, false, false, true, true},
		{Static, "static/key", true, true, false, true, true},
		{Quorum, "quorum/key", true, true, true, true, true},
		{Cost, "cost/key", true, true, true, true, true},
	} {
		p, err := ParsePolicy(c.name)
		if err != nil || p != c.policy || p.ByKey() != c.byKey || p.Placed() != c.placed || p.Planned() != c.planned || p.Asks(true) != c.leader || p.Asks(false) != c.follower {
			t.Errorf("%s: %v; key order %v, placed %v, planned %v, the leader asks %v, others %v", c.name, err, p.ByKey(), p.Placed(), p.Planned(), p.Asks(true), p.Asks(false))
		}
	}
	for _, name := range []string{"", "OFF", "key", "static"} {
		p, err := ParsePolicy(name)
		if p != "" || !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), "off, leader, all, leader/key, all/key, static/key, quorum/key, cost/key") {
			t.Errorf("%q: %q, %v", name, p, err)
		}
	}
	if none := Policy(""); none.ByKey() || none.Placed() || none.Planned() || none.Asks(true) {
		t.Error("a cluster that has decided nothing has read leases")
	}
}
