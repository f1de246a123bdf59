package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func TestDiffering(t *testing.T) {
	for _, tt := range []struct {
		name  string
		found map[uint64]uint32
		total int
		want  []uint64
	}{
		{"nobody answers", nil, 3, nil},
		{"alone", map[uint64]uint32{1: 7}, 1, nil},
		{"all agree", map[uint64]uint32{1: 7, 2: 7, 3: 7}, 3, nil},
		{"one is away", map[uint64]uint32{1: 7, 3: 7}, 3, nil},
		{"one differs", map[uint64]uint32{1: 7, 2: 7, 3: 8}, 3, []uint64{3}},
		{"the one that asks differs", map[uint64]uint32{1: 8, 2: 7, 3: 7}, 3, []uint64{1}},
		{"two of five differ", map[uint64]uint32{1: 7, 2: 9, 3: 7, 4: 8, 5: 7}, 5, []uint64{2, 4}},
		{"two of three, and they differ", map[uint64]uint32{1: 7, 2: 8}, 3, []uint64{0}},
		{"two of four agree", map[uint64]uint32{1: 7, 2: 7, 3: 8, 4: 9}, 4, []uint64{0}},
		{"all differ", map[uint64]uint32{1: 7, 2: 8, 3: 9}, 3, []uint64{0}},
	} {
		if got := differing(tt.found, tt.total); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// corruptible is a cluster with some history, at the same revision everywhere.
func corruptible(t *testing.T, adjust ...func(*Config)) *cluster {
	c := newCluster(t, 3, append([]func(*Config){nimble}, adjust...)...)
	for _, n := range c.nodes {
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"a", "b", "a", "c"} {
		if _, err := c.nodes[0].Propose(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte("value")}); err != nil {
			t.Fatal(err)
		}
	}
	c.settle(t)
	return c
}

// settle waits until all members have all that was written.
func (c *cluster) settle(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		if err := n.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// corrupt changes a bit in the memory of a member.
func corrupt(t *testing.T, n *Node) {
	t.Helper()
	got, err := n.View().Range(&pb.RangeRequest{Key: []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	got.Kvs[0].Value[0] ^= 1
}

// A member whose data differ is found by any leader, itself included, and gets the alarm; then no member
// takes a write.
func TestACorruptMemberIsFound(t *testing.T) {
	c := corruptible(t)
	for i, n := range c.nodes {
		n.checkCorruption(t.Context())
		if n.Alarms().Used() {
			t.Fatalf("member %d finds corruption where none is: %v", i, n.Alarms().List(0))
		}
	}
	corrupt(t, c.nodes[2])
	for i, n := range c.nodes {
		n.checkCorruption(t.Context())
		c.settle(t)
		if list := n.Alarms().List(pb.AlarmType_CORRUPT); len(list) != 1 || list[0].MemberID != c.nodes[2].ID() {
			t.Errorf("member %d compares, and the alarms are %v; want one of member %d", i, list, c.nodes[2].ID())
		}
		if _, err := n.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")}); !errors.Is(err, alarm.ErrCorrupt) {
			t.Errorf("a put at member %d: got %v, want %v", i, err, alarm.ErrCorrupt)
		}
		if _, err := n.Propose(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: c.nodes[2].ID(), Alarm: pb.AlarmType_CORRUPT}); err != nil {
			t.Fatal(err)
		}
		c.settle(t)
	}
	for i, n := range c.nodes {
		if err := n.CheckAgainstOthers(t.Context()); (err != nil) != (i == 2) {
			t.Errorf("member %d compares itself with the others at its start: got %v", i, err)
		}
	}
}

// The leader compares by itself, and only then.
func TestTheLeaderCompares(t *testing.T) {
	c := corruptible(t)
	corrupt(t, c.nodes[1])
	for _, n := range c.nodes {
		n.cfg.CorruptCheck = 20 * time.Millisecond
		n.done.Add(1)
		go n.watchCorruption()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !c.nodes[0].Alarms().Raised(c.nodes[1].ID(), pb.AlarmType_CORRUPT) {
		select {
		case <-ctx.Done():
			t.Fatal("the leader does not find the member that was corrupted")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Hashes are compared if they are of the same revision and compact revision, and a difference counts if it is
// found twice.
func TestHashesOfOtherHistories(t *testing.T) {
	own := hash{revision: 7, compact: 3, sum: 1}
	for other, want := range map[hash]bool{
		{7, 3, 1}: true, {7, 3, 2}: true, {6, 3, 1}: false, {8, 3, 1}: false, {7, 4, 1}: false, {7, 2, 1}: false, {}: false,
	} {
		if got := own.comparable(other); got != want {
			t.Errorf("%+v and %+v are compared: %v, want %v", own, other, got, want)
		}
	}
	if got := both([]uint64{1, 2, 3}, []uint64{3, 5, 1}); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("1, 2 and 3 are found, and then 3, 5 and 1: found twice are %v, want 1 and 3", got)
	}
	if got := both([]uint64{1}, nil); len(got) != 0 {
		t.Errorf("what is found once counts: %v", got)
	}
}

// Members with other compactions or revisions are not compared, and raise no alarm.
func TestWhatCannotBeCompared(t *testing.T) {
	c := corruptible(t)
	lead, other := c.nodes[0], machine.NodeID(c.nodes[1].ID())
	// A revision that is not reached yet has no answer.
	for rev, wait := range map[int64]time.Duration{2: 20 * time.Second, 5: 20 * time.Second, 99: time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		h, err := lead.hashOf(ctx, other, rev)
		cancel()
		if (err != nil) != (rev == 99) || err == nil && h.revision != rev {
			t.Fatalf("at revision %d: got %+v, %v", rev, h, err)
		}
	}
	if n := lead.hashes.number(); n != 0 {
		t.Errorf("%d questions are kept for answers that nobody waits for any more", n)
	}
	before, err := lead.hashAt(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lead.Propose(t.Context(), &pb.CompactionRequest{Revision: 4}); err != nil {
		t.Fatal(err)
	}
	c.settle(t)
	after, err := lead.hashOf(t.Context(), other, 5)
	if err != nil || after.compact != 4 || before.compact == 4 || after.revision != before.revision {
		t.Errorf("before a compaction %+v, behind it %+v, %v", before, after, err)
	}
	if h, err := lead.hashAt(t.Context(), 2); err == nil {
		t.Errorf("a compacted revision: got %+v", h)
	}
	for i, n := range c.nodes {
		if n.checkCorruption(t.Context()); n.Alarms().Used() {
			t.Errorf("member %d finds corruption behind a compaction", i)
		}
	}
	lagging := &Node{}
	lagging.hashes = newWaits[hash]()
	for _, p := range [][]byte{{wireHashAsk}, {wireHashAnswer, 1}, {wireHashAnswer, 1, 2, 3, 0, 0, 0, 0, 9}} {
		if !lagging.hashMessage(1, p) {
			t.Errorf("%v is no message about hashes", p)
		}
	}
	if lagging.hashMessage(1, []byte{1}) || lagging.hashMessage(1, nil) {
		t.Error("any message is about hashes")
	}
}

// A member that is asked for the hash of a compacted revision says so at once: the revision will not come back.
func TestCompactedRevisionsAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.New()
		for range 3 {
			store.Put(&pb.PutRequest{Key: []byte("k")})
		}
		if err := store.Compact(3); err != nil {
			t.Fatal(err)
		}
		n := &Node{cfg: Config{ElectionTimeout: time.Minute, HeartbeatInterval: time.Second}}
		n.state.Store(&state{view: store.View()})
		begin := time.Now()
		if _, err := n.hashAt(t.Context(), 2); !errors.Is(err, kv.ErrCompacted) || !time.Now().Equal(begin) {
			t.Errorf("a compacted revision is waited for, %v: %v, want at once that it is compacted", time.Since(begin), err)
		}
		if _, err := n.hashAt(t.Context(), 9); err == nil || time.Since(begin) != time.Minute {
			t.Errorf("a revision that may come is waited for, %v: %v, want an election timeout", time.Since(begin), err)
		}
	})
}
