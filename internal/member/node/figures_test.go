package node

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
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
