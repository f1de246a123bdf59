package replica

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
)

// Keys of different requests do not count as written together if they only share an entry.
func TestRequestsOfAnEntryAreCountedByThemselves(t *testing.T) {
	var requests []Propose
	for _, key := range []string{"a", "b"} {
		body, err := EncodeRequest(&pb.PutRequest{Key: []byte(key)})
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, Propose{Body: body})
	}
	rl := &readLeases{plans: plans{counter: placement.NewCounter(16)}}
	term, index := uint64(2), uint64(0)
	for range 100 {
		index++
		e := &raftpb.Entry{Term: &term, Index: new(index), Data: (&batch{Term: term, From: 1, Requests: requests}).encode()}
		touch := rl.keys.log.Add(e, nil)
		rl.wrote(e, 1, touch)
	}
	counts := rl.plans.counter.Take()
	if got := counts.Of([]byte("a")).Writes; len(got) != 1 || got[0] != 100 {
		t.Errorf("writes of a by origin: got %v, want [100]", got)
	}
	if len(counts.Pairs) > 0 {
		t.Errorf("keys of requests that share an entry count as written together: %v", counts.Pairs)
	}
}

// A lease that was published to readers is never modified.
func TestInvisibleKeysAreNeverWrittenTwice(t *testing.T) {
	var u invisible
	var table keyspan.Table
	add := func(i uint64, key string) {
		set := keyspan.Set{{Key: []byte(key)}}
		table.Add(i, set, nil)
		u.add(i, set)
	}
	for i, key := range []string{"a", "b", "c", "d", "e"} {
		add(uint64(i+1), key)
	}
	given := u
	want := slices.Clone(u.keys)
	table.Truncate(3)
	u.truncate(3)
	add(3, "x")
	add(4, "y")
	if !slices.Equal(given.keys, want) {
		t.Errorf("what was given out has changed")
	}
	for i, key := range []string{"a", "b", "x", "y"} {
		if !u.meets(keyspan.Set{{Key: []byte(key)}}, false) {
			t.Errorf("entry %d, of %s, is not among them", i+1, key)
		}
	}
	table.ReleaseThrough(4)
	u.tidy(&table)
	if len(u.keys) != 4 {
		t.Errorf("%d keys are left of what is released and not in the state, want 4", len(u.keys))
	}
	table.Forget(4)
	if u.tidy(&table); len(u.keys) > 0 {
		t.Errorf("%d keys are left of what is in the state", len(u.keys))
	}
}

// An entry that is held for long does not keep later entries from being forgotten.
func TestInvisibleKeysAreForgottenBehindWhatIsHeld(t *testing.T) {
	var u invisible
	var table keyspan.Table
	for i := uint64(1); i <= 10*maxInvisible; i++ {
		set := keyspan.Set{{Key: []byte{byte(i), byte(i >> 8)}}}
		table.Add(i, set, nil)
		u.add(i, set)
		if i > 1 {
			table.Release(i)
			table.Forget(i)
		}
		if u.tidy(&table); !u.fits() {
			t.Fatalf("entry %d: %d keys are kept, one is held", i, len(u.keys))
		}
	}
	if !u.meets(keyspan.Set{{Key: []byte{1, 0}}}, false) {
		t.Error("the one that is held is forgotten")
	}
}
