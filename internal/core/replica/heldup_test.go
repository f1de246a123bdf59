package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// However much is held up, the age of the oldest entry is exact. Later entries share marks: they may
// seem older than they are, and never younger.
func TestHeldUpSinceTheFirst(t *testing.T) {
	var h heldUp
	const n = 3 * maxCommitMarks
	for i := range uint64(n) {
		h.committed(i+1, machine.Mono(i+1))
	}
	if len(h.marks) > maxCommitMarks {
		t.Errorf("%d marks are kept, want %d at most", len(h.marks), maxCommitMarks)
	}
	now := machine.Mono(2 * n)
	for released := range uint64(n) {
		h.released(released)
		got, least := h.since(now), time.Duration(now)-time.Duration(released+1)
		if got < least || released == 0 && got != least {
			t.Fatalf("with entries up to %d released, the next has waited for %d, want %d or more", released, got, least)
		}
	}
	h.marks = []commitMark{{10, 1}, {11, 2}, {12, 3}, {13, 4}}
	if h.released(12); h.since(5) != 1 || len(h.marks) != 1 {
		t.Errorf("of four marks three are released, and the next of %d has waited for %d, want 1", len(h.marks), h.since(5))
	}
	if h.released(n); h.since(now) != 0 {
		t.Errorf("nothing is held, and it has waited for %v", h.since(now))
	}
}

// HeldUp lists the members that hold keys of committed entries, lack those entries, and have promises
// from some member. For a change of the holders, all members count as holders. Each member is listed
// once.
func TestMembersThatHoldUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(k *keyOrder)
		want   []machine.NodeID
	}{
		{"nothing is held", func(*keyOrder) {}, nil},
		{"an entry of one member's keys", func(k *keyOrder) { k.missed[0].entries = []uint64{12} }, []machine.NodeID{3}},
		{"an entry of everyone's keys", func(k *keyOrder) { k.missed[1].entries = []uint64{12} }, []machine.NodeID{2, 3}},
		{"the last entry that is committed", func(k *keyOrder) { k.missed[0].entries = []uint64{13} }, []machine.NodeID{3}},
		{"an entry that is not committed", func(k *keyOrder) { k.missed[0].entries, k.missed[1].entries = []uint64{14}, []uint64{14} }, nil},
		{"an entry that all have", func(k *keyOrder) { k.missed[1].entries = []uint64{10} }, nil},
		{"an entry that one has", func(k *keyOrder) { k.missed[1].entries = []uint64{11} }, []machine.NodeID{3}},
		{"the last of several that one lacks", func(k *keyOrder) { k.missed[1].entries = []uint64{10, 11, 12} }, []machine.NodeID{2, 3}},
		{"the last of several that is committed", func(k *keyOrder) { k.missed[1].entries = []uint64{10, 11, 14} }, []machine.NodeID{3}},
		{"an entry that was released", func(k *keyOrder) { k.missed[1].entries = []uint64{12}; k.log.release(12) }, nil},
		{"a change of the holders", func(k *keyOrder) { k.fences = []uint64{12} }, []machine.NodeID{2, 3}},
		{"all of them", func(k *keyOrder) {
			k.missed[0].entries, k.missed[1].entries, k.fences = []uint64{12, 14}, []uint64{11, 14}, []uint64{12, 14}
		}, []machine.NodeID{2, 3}},
	} {
		r := keyReader(9)
		k := &r.reads.keys
		for i := range uint64(5) {
			k.log.Add(entryOfPuts(t, 2, 10+i, "k"), nil)
		}
		k.missed = []missed{{holders: []machine.NodeID{3}}, {}}
		tt.change(k)
		var l quorumlease.Ledger
		l.Begin(2, quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}})
		bound := []quorumlease.Lifetime{{Member: 2, Boot: 5}, {Member: 3, Boot: 6}}
		l.Report(1, quorumlease.Report{Boot: 4, Term: 2, Durable: 14, Received: 14, Holders: bound})
		l.Report(2, quorumlease.Report{Boot: 5, Term: 2, Durable: 11, Received: 11})
		l.Report(3, quorumlease.Report{Boot: 6, Term: 2, Durable: 10, Received: 10})
		if got := k.lacking(positions{committed: 13}, &l); !slices.Equal(got, tt.want) {
			t.Errorf("%s: members %d hold it up, want %d", tt.name, got, tt.want)
		}
	}
}

// Entries that raft hands out together are held until the last of them is released.
func TestEntriesHandedOutTogetherAreHeld(t *testing.T) {
	rl := new(readLeases)
	rl.noteCommitted(5, []*raftpb.Entry{entryAt(10, 1, 0), entryAt(11, 1, 0)})
	for _, tt := range []struct {
		released uint64
		since    time.Duration
	}{{9, 4}, {10, 4}, {11, 0}} {
		if rl.waits.released(tt.released); rl.waits.since(9) != tt.since {
			t.Errorf("of the entries 10 and 11 all up to %d are released, and the rest has been held for %v, want %v", tt.released, rl.waits.since(9), tt.since)
		}
	}
}
