package replica

import (
	"reflect"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// cuts are promises that note to where the log was cut.
type cuts struct {
	*asked
	last []uint64
}

func (c *cuts) Shortened(last uint64) { c.last = append(c.last, last) }

// A snapshot takes the place of the log: entries that were committed before go to the Applier before it, not
// to be seen, and those that were not count no more. The snapshot's own settings count when it is loaded,
// those of an older one never.
func TestASnapshotTakesThePlaceOfTheLog(t *testing.T) {
	member := func(index uint64, voters ...machine.NodeID) quorumlease.Membership {
		return quorumlease.Membership{Index: index, Voters: voters}
	}
	for _, last := range []uint64{12, 20, 25} {
		r := keyReader(9)
		rl := &r.reads
		rl.keys.stop()
		bound := &cuts{asked: newAsked(quorumlease.Config{Self: 1}, r.now)}
		rl.promises = bound
		committed := []*raftpb.Entry{entryAt(8, 1, 0), entryAt(9, 1, 0)}
		rl.held, rl.committed, rl.handedOut, r.last = committed, 9, 7, last
		rl.tail, rl.settings = []*raftpb.Entry{entryAt(11, 1, 0)}, []uint64{11}
		rl.count(quorumlease.Memberships{member(1, 1, 2), member(11, 1, 2, 3)})
		rl.noteSnapshot(r.moment, &r.effects, 20)
		if want := []Outcome{Committed{Entries: committed, Held: true}}; !reflect.DeepEqual(r.outcomes, want) {
			t.Errorf("a log up to %d is replaced, and the owner is given %+v, want what was committed, not to be seen", last, r.outcomes)
		}
		if rl.handedOut != 20 || rl.loading != 20 || len(rl.tail)+len(rl.settings)+len(rl.held) > 0 || len(rl.memberships) != 1 || len(rl.voters) != 2 {
			t.Errorf("a log up to %d is replaced: given %d, loading %d, members %+v; in the log are %d entries, of which %d divide keys, and %d are held",
				last, rl.handedOut, rl.loading, rl.memberships, len(rl.tail), len(rl.settings), len(rl.held))
		}
		if cut := len(bound.last) == 1 && bound.last[0] == 20; cut != (last > 20) || !cut && len(bound.last) > 0 {
			t.Errorf("a log up to %d is replaced, and promises hear of cuts to %d", last, bound.last)
		}

		older := Restored{Index: 15, Term: 1, Released: 15, ReadPolicy: quorumlease.Off, Roster: Roster{Memberships: quorumlease.Memberships{member(1, 1, 2, 3)}}}
		if rl.restored(r.moment, &r.effects, older); rl.loading != 20 || rl.setting.policy == quorumlease.Off || len(rl.voters) != 2 {
			t.Errorf("an older snapshot that was loaded meanwhile counts: loading %d, policy %s, voters %d", rl.loading, rl.setting.policy, rl.voters)
		}
		older.Index, older.Released = 20, 20
		if rl.restored(r.moment, &r.effects, older); rl.loading != 0 || rl.setting.policy != quorumlease.Off || len(rl.voters) != 3 || rl.applied != 20 || rl.released != 20 {
			t.Errorf("the snapshot was loaded: loading %d, policy %s, voters %d, applied up to %d, released up to %d", rl.loading, rl.setting.policy, rl.voters, rl.applied, rl.released)
		}
	}
}

// Entries that are replaced count no more: neither for the holders of keys, nor for the membership, nor for
// the stamps of promises.
func TestReplacedEntriesCountNoMore(t *testing.T) {
	for from, want := range map[uint64]struct {
		settings []uint64
		voters   int
		tail     int
		cut      []uint64
	}{
		13: {[]uint64{10, 12}, 3, 4, nil},
		12: {[]uint64{10}, 3, 3, []uint64{11}},
		11: {[]uint64{10}, 2, 2, []uint64{10}},
		10: {nil, 2, 1, []uint64{9}},
	} {
		r := keyReader(9)
		rl := &r.reads
		rl.keys.stop()
		bound := &cuts{asked: newAsked(quorumlease.Config{Self: 1}, r.now)}
		rl.promises, r.last, rl.settings = bound, 12, []uint64{10, 12}
		rl.tail = []*raftpb.Entry{entryAt(10, 1, 0), entryAt(11, 1, 0), entryAt(12, 1, 0)}
		rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2}}, {Index: 11, Voters: []machine.NodeID{1, 2, 3}}})
		rl.noteAppended(r.moment, []*raftpb.Entry{entryAt(from, 2, 0)})
		if !slices.Equal(rl.settings, want.settings) || len(rl.voters) != want.voters || len(rl.tail) != want.tail || rl.tail[want.tail-1].GetTerm() != 2 || !slices.Equal(bound.last, want.cut) {
			t.Errorf("replaced from %d on: keys are divided by %d, %d vote, %d entries are not applied, promises hear of cuts to %d; want %+v",
				from, rl.settings, rl.voters, len(rl.tail), bound.last, want)
		}
	}
}
