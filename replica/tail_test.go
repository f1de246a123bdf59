package replica

import (
	"errors"
	"math/rand/v2"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

func entryAt(index, term uint64, size int) *raftpb.Entry {
	return &raftpb.Entry{Index: &index, Term: &term, Data: make([]byte, size)}
}

func snapshotAt(index, term uint64) *raftpb.SnapshotMetadata {
	return &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &raftpb.ConfState{Voters: []uint64{1}}}
}

// A tail holds what was appended last at each index, reaches back to the newest
// snapshot at least, and gives memory back as promised.
func TestTailAgainstModel(t *testing.T) {
	const keep = 4000
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		tl := newTail(nil, snapshotAt(1, 1), nil, keep)
		terms := map[uint64]uint64{1: 1} // of everything that was ever appended and is valid
		last, term := uint64(1), uint64(1)
		for range 60 {
			switch p := rnd.Float64(); {
			case p < 0.6: // append, sometimes over entries that the snapshot does not cover
				from := last + 1
				if rnd.Float64() < 0.3 {
					from = tl.snap.GetIndex() + 1 + rnd.Uint64N(last+1-tl.snap.GetIndex())
					term++
				}
				var entries []*raftpb.Entry
				last = from - 1
				for range 1 + rnd.IntN(5) {
					last++
					entries = append(entries, entryAt(last, term, rnd.IntN(600)))
					terms[last] = term
				}
				tl.append(entries)
			case p < 0.9: // a snapshot of the state at some applied index
				index := tl.snap.GetIndex() + rnd.Uint64N(last+1-tl.snap.GetIndex())
				newer := index > tl.snap.GetIndex()
				tl.snapshotted(snapshotAt(index, terms[index]))
				if newer && tl.covered > 0 && tl.bytes > keep {
					t.Fatalf("seed %d: %d bytes kept of which a snapshot covers %d, want %d at most", seed, tl.bytes, tl.covered, keep)
				}
			default: // a snapshot from the leader, within or beyond what there is
				term++
				index := tl.snap.GetIndex() + 1 + rnd.Uint64N(last+10-tl.snap.GetIndex())
				last = index
				terms[index] = term
				tl.restored(snapshotAt(index, term))
			}
			checkTail(t, seed, tl, last, terms)
		}
	}
}

func checkTail(t *testing.T, seed uint64, tl *tail, last uint64, terms map[uint64]uint64) {
	t.Helper()
	if tl.last() != last {
		t.Fatalf("seed %d: the log ends at %d, want %d", seed, tl.last(), last)
	}
	if snap := tl.snap.GetIndex(); tl.first() > snap+1 {
		t.Fatalf("seed %d: the log begins at %d, after the snapshot at %d", seed, tl.first(), snap)
	}
	bytes, covered := 0, 0
	for i := tl.first(); i <= last; i++ {
		if got, err := tl.Term(i); err != nil || got != terms[i] {
			t.Fatalf("seed %d: entry %d has term %d (%v), want %d", seed, i, got, err, terms[i])
		}
		es, err := tl.Entries(i, i+1, 0)
		if err != nil || len(es) != 1 || es[0].GetIndex() != i {
			t.Fatalf("seed %d: entry %d is %v (%v)", seed, i, es, err)
		}
		bytes += entryBytes(es[0])
		if i <= tl.snap.GetIndex() {
			covered += entryBytes(es[0])
		}
	}
	if bytes != tl.bytes || covered != tl.covered {
		t.Fatalf("seed %d: counts %d bytes, %d covered; want %d, %d", seed, tl.bytes, tl.covered, bytes, covered)
	}
	if _, err := tl.Entries(tl.first()-1, last+1, 1); !errors.Is(err, raft.ErrCompacted) {
		t.Fatalf("seed %d: an entry before the first: %v", seed, err)
	}
	if _, err := tl.Term(last + 1); !errors.Is(err, raft.ErrUnavailable) {
		t.Fatalf("seed %d: a term beyond the last: %v", seed, err)
	}
}

// Entries holds at least one entry and otherwise keeps to its limit.
func TestTailEntriesLimit(t *testing.T) {
	tl := newTail(nil, snapshotAt(1, 1), []*raftpb.Entry{entryAt(2, 1, 100), entryAt(3, 1, 100), entryAt(4, 1, 100)}, 1<<20)
	for limit, want := range map[uint64]int{0: 1, 123: 1, 124: 1, 248: 2, 371: 2, 372: 3, 1 << 20: 3} {
		if got, err := tl.Entries(2, 5, limit); err != nil || len(got) != want {
			t.Errorf("limit %d: %d entries (%v), want %d", limit, len(got), err, want)
		}
	}
}
