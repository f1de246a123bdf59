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

// In strict order a member reads under its lease, if its log has no division of the keys that is not
// applied, and by the leader's word otherwise. It waits until that much of the log was given to the Applier.
func TestWhenAMemberReadsInStrictOrder(t *testing.T) {
	for _, tt := range []struct {
		name      string
		until     machine.Mono
		unsettled bool
		answered  uint64 // by a round; 0: by none
		handedOut uint64
		together  bool // of several keys
		want      []KeysReady
	}{
		{"under a lease", 11, false, 0, 9, false, []KeysReady{{ID: 5, Index: 9, UpTo: 9, Local: true}}},
		{"under a lease, before the log is given", 11, false, 0, 8, false, nil},
		{"when the lease is over", 10, false, 0, 9, false, nil},
		{"under a lease, with a division to come", 11, true, 0, 9, false, nil},
		{"by a round", 10, false, 8, 8, false, []KeysReady{{ID: 5, Index: 8, UpTo: 8}}},
		{"by a round, with a division to come", 11, true, 8, 8, false, []KeysReady{{ID: 5, Index: 8, UpTo: 8}}},
		{"by a round, before as much is given", 10, false, 9, 8, false, nil},
		{"several keys by a round", 10, false, 8, 8, true, []KeysReady{{ID: 5, Index: 8, UpTo: 8, Exact: true}}},
	} {
		s := strictOrder{new(revealed)}
		q := &keyRead{ReadKeys: ReadKeys{ID: 5, Keys: key("k")}, since: 10, together: tt.together}
		if tt.answered > 0 {
			q.confirmed(tt.answered)
		}
		s.reads = []*keyRead{q}
		got := s.mayRead(reading{positions: positions{handedOut: tt.handedOut, committed: 9}, now: 10, until: tt.until, unsettled: tt.unsettled, last: 9, patience: 1})
		if !slices.Equal(got, tt.want) || len(s.reads) == len(tt.want) {
			t.Errorf("%s: a read is answered %+v, and %d wait; want %+v", tt.name, got, len(s.reads), tt.want)
		}
		s.reads = nil
		if got := s.mayRead(reading{positions: positions{handedOut: 9, committed: 9}, now: 10, last: 9, patience: 1}); len(got) > 0 {
			t.Errorf("%s: a read that was answered is answered again, %+v", tt.name, got)
		}
	}
}

// In strict order all that is visible is both released and applied, and what is released here is
// committed here. Nothing is reported, for nothing is hidden.
func TestWhatIsVisibleInStrictOrder(t *testing.T) {
	for _, tt := range []struct{ released, committed, applied, through, here uint64 }{
		{7, 9, 9, 7, 7}, {9, 9, 7, 7, 9}, {12, 9, 8, 8, 9}, {12, 9, 9, 9, 9},
	} {
		s := strictOrder{new(revealed)}
		at := positions{released: tt.released, committed: tt.committed, applied: tt.applied, handedOut: tt.applied}
		for range 2 {
			if out, ok := s.reported(at, reports{}); ok || s.through != tt.through {
				t.Errorf("released up to %d, applied up to %d: all up to %d is visible, and %+v is reported: %v; want %d and nothing", tt.released, tt.applied, s.through, out, ok, tt.through)
			}
			at.applied-- // it never goes back
		}
		if got := s.releasedHere(at); got != tt.here || s.hidesSome(at) {
			t.Errorf("released up to %d, committed up to %d: %d is released here, and some is hidden: %v; want %d", tt.released, tt.committed, got, s.hidesSome(at), tt.here)
		}
		if upTo, held := s.committed(at, false); upTo != tt.released || held {
			t.Errorf("released up to %d: entries are given up to %d, to be held: %v", tt.released, upTo, held)
		}
	}
}
