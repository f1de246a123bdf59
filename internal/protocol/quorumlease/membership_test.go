package quorumlease

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestMembershipsThatCount(t *testing.T) {
	a := Membership{Index: 1, Voters: []machine.NodeID{1, 2, 3}}
	b := Membership{Index: 5, Voters: []machine.NodeID{1, 2, 3}, Learners: []machine.NodeID{4}}
	c := Membership{Index: 9, Voters: []machine.NodeID{1, 2}, Learners: []machine.NodeID{4}}
	both := Memberships{a}.With(b)
	for _, tc := range []struct {
		name string
		got  Memberships
		want []uint64
	}{
		{"nobody knows that the change is released", both, []uint64{1, 5}},
		{"what is before is released", both.Released(4), []uint64{1, 5}},
		{"it is released", both.Released(5), []uint64{5}},
		{"another tells that the one before is released", both.With(c), []uint64{5, 9}},
		{"the other was cut off", both.With(c).Cut(7), []uint64{5}},
		{"the entry itself was replaced", both.Cut(5), []uint64{1}},
		{"what is behind was replaced", both.Cut(6), []uint64{1, 5}},
		{"the only one stays", Memberships{a}.Cut(1), []uint64{1}},
		{"of nobody", Memberships{}.With(a), []uint64{1}},
	} {
		var got []uint64
		for _, m := range tc.got {
			got = append(got, m.Index)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %d count, want %d", tc.name, got, tc.want)
		}
	}
	if got, want := both.With(c).Everyone(), []machine.NodeID{1, 2, 4, 3}; !slices.Equal(got, want) {
		t.Errorf("everyone is %d, want %d", got, want)
	}
}

// Two memberships are the same if all of them is: entries of different logs may have an index.
func TestEqualMemberships(t *testing.T) {
	ids := func(list ...machine.NodeID) []machine.NodeID { return list }
	m := Membership{Index: 5, Voters: ids(1, 2, 3), Learners: ids(4)}
	for name, tc := range map[string]struct {
		other Membership
		want  bool
	}{
		"the same":       {Membership{5, ids(1, 2, 3), ids(4)}, true},
		"another index":  {Membership{6, ids(1, 2, 3), ids(4)}, false},
		"other voters":   {Membership{5, ids(1, 2), ids(4)}, false},
		"other learners": {Membership{5, ids(1, 2, 3), nil}, false},
	} {
		if got := m.Equal(tc.other); got != tc.want {
			t.Errorf("%s: equal is %v, want %v", name, got, tc.want)
		}
	}
}

// Until a change is released a reader needs a majority before it and one behind it (R23).
func TestUntilTwoMajoritiesAreBound(t *testing.T) {
	ids := func(list ...machine.NodeID) []machine.NodeID { return list }
	for _, tc := range []struct {
		name          string
		before, after []machine.NodeID
		grantors      []machine.NodeID
		leased        bool
	}{
		{"one of three, then of two", ids(1, 2, 3), ids(1, 2), ids(2), true},
		{"one that is to leave does not count behind", ids(1, 2, 3), ids(1, 2), ids(3), false},
		{"one that came does not count before", ids(1, 2), ids(1, 2, 3), ids(3), false},
		{"two of four, and before one of three", ids(1, 2, 3), ids(1, 2, 3, 4), ids(3, 4), true},
		{"one of four", ids(1, 2, 3), ids(1, 2, 3, 4), ids(3), false},
		{"removed itself", ids(1, 2, 3), ids(2, 3), ids(2, 3), false},
	} {
		h := NewHolder(config(1))
		for _, g := range tc.grantors {
			h.Promised(g, Promise{Boot: 1, Seq: h.Ask(at(0)).Seq, TTL: ttl}, Log{})
		}
		members := Memberships{{Index: 1, Voters: tc.before}, {Index: 5, Voters: tc.after}}
		if got := h.Until(members) >= at(100*time.Millisecond); got != tc.leased {
			t.Errorf("%s: leased is %v, want %v", tc.name, got, tc.leased)
		}
	}
}

// Up to a change of voters, and for that itself, either majority will do; behind it the
// new one alone (R23).
func TestReleaseAcrossAChange(t *testing.T) {
	rep := func(from machine.NodeID, durable uint64, holders ...Lifetime) (machine.NodeID, Report) {
		return from, Report{Boot: 1, Term: 3, Durable: durable, Holders: holders}
	}
	ids := func(list ...machine.NodeID) []machine.NodeID { return list }
	type said struct {
		from machine.NodeID
		Report
	}
	is := func(from machine.NodeID, r Report) said { return said{from, r} }
	for _, tc := range []struct {
		name          string
		before, after []machine.NodeID // after, from entry 5 on
		reports       []said
		want          uint64
	}{
		{"the new one has not started", ids(1), ids(1, 2), []said{is(rep(1, 9))}, 5},
		{"it has come", ids(1), ids(1, 2), []said{is(rep(1, 9)), is(rep(2, 7))}, 7},
		{"it has come a part of the way", ids(1), ids(1, 2), []said{is(rep(1, 9)), is(rep(2, 3))}, 5},
		{"a former member says nothing", ids(1, 2), ids(1), []said{is(rep(1, 9))}, 9},
		{"a former member may read", ids(1, 2, 3), ids(1, 2), []said{is(rep(1, 9, Lifetime{3, 1})), is(rep(2, 9, Lifetime{3, 1})), is(rep(3, 4))}, 4},
		{"bound to everyone, one that left too", ids(1, 2, 3), ids(1, 2), []said{is(rep(1, 9)), {2, Report{Boot: 1, Term: 3, Durable: 9, Everyone: true}}, is(rep(3, 4))}, 4},
		{"a former member has seen it", ids(1, 2, 3), ids(1, 2), []said{is(rep(1, 9)), {2, Report{Boot: 1, Term: 3, Durable: 9, Everyone: true}}, is(rep(3, 5))}, 5},
	} {
		var l Ledger
		members := Memberships{{Index: 1, Voters: tc.before}, {Index: 5, Voters: tc.after}}
		l.Begin(3, members)
		for _, r := range tc.reports {
			l.Report(r.from, r.Report)
		}
		if got := l.Release(9); got != tc.want {
			t.Errorf("%s: released %d, want %d", tc.name, got, tc.want)
		}
	}
}

// Memberships are replaced and never changed, whatever room there is behind them.
func TestMembershipsAreNotWrittenTo(t *testing.T) {
	roomy := append(make(Memberships, 0, 8), Membership{Index: 1})
	one := roomy.With(Membership{Index: 5})
	if other := roomy.With(Membership{Index: 6}); one.Newest().Index != 5 || other.Newest().Index != 6 {
		t.Errorf("what counts behind entry 5 was changed to %+v", one)
	}
}
