package replica

import (
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// The end of the log that is not applied follows the log: it is cut, it grows, and the Applier takes from it. Entries
// that were given away are not written to.
func TestTheEndThatIsNotApplied(t *testing.T) {
	entries := func(from, to uint64) (list []*raftpb.Entry) {
		for i := from; i <= to; i++ {
			list = append(list, entryAt(i, 1, int(i)))
		}
		return list
	}
	indexes := func(list []*raftpb.Entry) (got []uint64) {
		for _, e := range list {
			got = append(got, e.GetIndex())
		}
		return got
	}
	var u unapplied
	u.settings = []uint64{4, 7, 9}
	u.add(entries(5, 10))
	if !slices.Equal(u.settings, []uint64{4}) || len(u.tail) != 6 {
		t.Errorf("from 5 on the log is replaced: keys are divided by %d, and %d entries are not applied, want 4 and 6 entries", u.settings, len(u.tail))
	}
	size := 0
	for _, e := range u.tail {
		size += entryBytes(e)
	}
	if u.bytes() != size {
		t.Errorf("entries of %d bytes are not applied, and %d are counted", size, u.bytes())
	}
	given := u.tail
	u.cut(8)
	u.tail = append(u.tail, entryAt(8, 2, 0))
	if got := indexes(u.tail); !slices.Equal(got, []uint64{5, 6, 7, 8}) || given[3].GetTerm() != 1 {
		t.Errorf("cut at 8, entries %d are not applied; of what was given away, entry 8 is of term %d", got, given[3].GetTerm())
	}
	u.settings = []uint64{5, 6, 8}
	u.forget(6)
	if got := indexes(u.tail); !slices.Equal(got, []uint64{7, 8}) || !slices.Equal(u.settings, []uint64{8}) || !u.unsettled() {
		t.Errorf("applied up to 6, entries %d are not, and keys are divided by %d", got, u.settings)
	}
	if u.forget(8); u.unsettled() {
		t.Error("all is applied, and a division is not")
	}
	if u.loading = 9; !u.unsettled() {
		t.Error("a snapshot is loaded, and all divisions are applied")
	}
	u.held = entries(10, 14)
	for _, step := range []struct {
		upTo uint64
		want []uint64
	}{{9, nil}, {11, []uint64{10, 11}}, {11, nil}, {20, []uint64{12, 13, 14}}} {
		got := u.take(step.upTo)
		_ = append(got, entryAt(99, 1, 0)) // by its owner
		if !slices.Equal(indexes(got), step.want) {
			t.Errorf("up to %d the Applier is given %d, want %d", step.upTo, indexes(got), step.want)
		}
	}
}

// The Applier is given what is committed up to an index, and knows no more.
func TestWhatIsHandedOut(t *testing.T) {
	r := keyReader(9)
	rl := &r.reads
	rl.held, rl.handedOut = []*raftpb.Entry{entryAt(10, 1, 0), entryAt(11, 1, 0)}, 9
	for _, step := range []struct {
		upTo, handedOut uint64
		outcomes        int
	}{{9, 9, 0}, {10, 10, 1}, {20, 11, 2}, {20, 11, 2}} {
		if rl.handOut(&r.effects, step.upTo, true); rl.handedOut != step.handedOut || len(r.outcomes) != step.outcomes {
			t.Errorf("of entries up to 11, those up to %d are given: given up to %d in %d parts, want %d in %d", step.upTo, rl.handedOut, len(r.outcomes), step.handedOut, step.outcomes)
		}
	}
}
