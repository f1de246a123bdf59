package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Changes of leader are counted: another leader is one, and that there is none is not.
func TestLeaderChangesAreCounted(t *testing.T) {
	n, _, _ := linked(t)
	defer n.end()
	n.leadership.Store(&leadership{})
	var got []uint64
	for _, leader := range []machine.NodeID{2, 2, 0, 2, 3, 0, 0} {
		n.leaderChanged(replica.LeaderChanged{Leader: leader})
		got = append(got, n.Figures().LeaderChanges)
	}
	if want := []uint64{1, 1, 1, 2, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("changes of leader are counted as %v, want %v", got, want)
	}
}

// Requests that wait are counted, and those whose outcome nobody learned.
func TestRequestsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, _ := linked(t)
		defer n.end()
		n.cfg.MaxPendingBytes = 1 << 20
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { _, err = n.propose(ctx, make([]byte, 1000)) }()
		synctest.Wait()
		if got := n.Figures(); got.Pending != 1 || got.PendingBytes != 1000+requestOverhead || got.Failed != 0 {
			t.Errorf("while a request waits: %+v, want one pending, of %d bytes", got, 1000+requestOverhead)
		}
		cancel()
		synctest.Wait()
		if got := n.Figures(); !errors.Is(err, context.Canceled) || got.Failed != 1 {
			t.Errorf("after its caller has gone: %+v, %v, want one failed", got, err)
		}
	})
}

// A request that is given up for its time counts as failed.
func TestOverdueRequestsFail(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.RequestTimeout = 300 * time.Millisecond })
	lead := c.leader()
	for i := range c.nodes {
		if i != lead {
			c.kill(i)
		}
	}
	for c.nodes[lead].Figures().Failed == 0 {
		c.nodes[lead].propose(t.Context(), []byte("x"))
	}
}

// Forced writes of the log are told, with the time that they took.
func TestForcedWritesAreTold(t *testing.T) {
	var told, short atomic.Int64
	c := newCluster(t, 1, func(cfg *Config) {
		cfg.Synced = func(took time.Duration) {
			told.Add(1)
			if took <= 0 || took > time.Minute {
				short.Add(1)
			}
		}
	})
	c.leader()
	before := told.Load()
	c.put(0, "k", "v")
	if told.Load() == before || short.Load() > 0 {
		t.Errorf("a put tells of %d forced writes, %d of them of no length, want one at least", told.Load()-before, short.Load())
	}
	if got := c.nodes[0].PeerStats(77); got != (peer.Stats{}) {
		t.Errorf("a member that is not there has figures %+v", got)
	}
}

// A member counts what it does, and the entries that take long.
func TestFiguresOfRequests(t *testing.T) {
	cfg := single(t, t.TempDir())
	cfg.WarnApply = 1
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	for range 3 {
		if _, err := n.Propose(t.Context(), &pb.PutRequest{Key: []byte("key")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.View().Range(&pb.RangeRequest{Key: []byte("key")}); err != nil {
		t.Fatal(err)
	}
	got := n.Figures()
	if puts, ranges := got.Counts.Puts.Load(), got.Counts.Ranges.Load(); puts != 3 || ranges != 1 {
		t.Errorf("%d puts and %d ranges are counted, want 3 and 1", puts, ranges)
	}
	if got.Slow < 1 { // requests may share an entry
		t.Errorf("%d slow entries are counted, want some", got.Slow)
	}
}

// Reads that a leader does not answer in time are counted apart from those without a leader, and so are heartbeats that leave late.
func TestReadsWithoutAnswerAreCounted(t *testing.T) {
	n, _, _ := linked(t)
	defer n.end()
	since := time.Now()
	n.leadership.Store(&leadership{leader: 2, at: since.Add(-time.Second)})
	for range 3 {
		if err := n.readTimeout(since); !errors.Is(err, n.timeout(since)) {
			t.Errorf("a read that is late ends with %v", err)
		}
	}
	n.leadership.Store(&leadership{at: since.Add(time.Second)})
	n.readTimeout(since)
	n.leadership.Store(&leadership{leader: 3, at: since.Add(time.Second)})
	n.readTimeout(since)
	if got := n.Figures(); got.SlowReads != 3 || got.FailedReads != 2 {
		t.Errorf("%d reads are counted as slow and %d as failed, want 3 and 2", got.SlowReads, got.FailedReads)
	}
	n.cfg.HeartbeatInterval = time.Nanosecond
	n.admission.open.Store(true)
	term := uint64(5)
	for range 2 {
		n.send([]machine.Envelope{{To: 2, Body: &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: &term}}})
		time.Sleep(time.Microsecond)
	}
	if got := n.Figures().LateBeats; got != 1 {
		t.Errorf("%d heartbeats are counted as late, want 1", got)
	}
}

// Requests at the state are told, with etcd's name for them and their outcome. A compaction of what is compacted is no failure.
func TestAppliedRequestsAreTold(t *testing.T) {
	var mu sync.Mutex
	told := map[string]int{}
	cfg := single(t, t.TempDir())
	cfg.Applied = func(operation string, success bool, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		told[fmt.Sprint(operation, " ", success)]++
		if took < 0 || took > time.Minute {
			t.Errorf("%s takes %v", operation, took)
		}
	}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	for _, req := range []proto.Message{
		&pb.PutRequest{Key: []byte("key")}, &pb.PutRequest{Key: []byte("key")}, &pb.PutRequest{Key: []byte("key"), Lease: 99},
		&pb.CompactionRequest{Revision: 2}, &pb.CompactionRequest{Revision: 2},
	} {
		n.Propose(t.Context(), req)
	}
	mu.Lock()
	defer mu.Unlock()
	for name, want := range map[string]int{"Put true": 2, "Put false": 1, "Compaction true": 2, "Compaction false": 0} {
		if told[name] != want {
			t.Errorf("%q is told %d times, want %d; all: %v", name, told[name], want, told)
		}
	}
}

// While the state is read from a snapshot that a leader sent, the figures tell so, and not before or after.
func TestRestoresAreTold(t *testing.T) {
	var n *Node
	var looking, told atomic.Bool
	disk := waltest.NewDisk().FS()
	disk.Fault = func(op, _ string) error {
		if looking.Load() && op == "read" {
			told.Store(n.Figures().Restoring)
		}
		return nil
	}
	n = lonely(t, func(cfg *Config) { cfg.WAL.FS, cfg.DataDir = disk, "/data" })
	defer n.Stop()
	if err := n.storage.saveSnapshot(1<<40, 3, &raftpb.ConfState{}, func(w io.Writer) error {
		_, err := w.Write([]byte("not the form of a state"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before := n.Figures().Restoring
	looking.Store(true)
	a := newApplier(n, replica.NewApplier(n.id, 1), 0)
	if err := a.restore(replica.Restore{Index: 1 << 40, Term: 3}); err == nil {
		t.Error("a snapshot without a state is taken for one")
	}
	looking.Store(false)
	if after := n.Figures().Restoring; before || !told.Load() || after {
		t.Errorf("that a snapshot is read is told before: %v, meanwhile: %v, afterwards: %v; want only meanwhile", before, told.Load(), after)
	}
}
