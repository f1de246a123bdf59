package node

import (
	"context"
	"errors"
	"fmt"
	"go.etcd.io/raft/v3/raftpb"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// lonely is one of three members, of which the others do not exist.
func lonely(t *testing.T, adjust func(*Config)) *Node {
	t.Helper()
	l := listen(t)
	cfg := Config{
		Name: "a", DataDir: t.TempDir(), PeerListener: l, Logger: slog.New(slog.DiscardHandler),
		HeartbeatInterval: 10 * time.Millisecond, ElectionTimeout: 50 * time.Millisecond,
		Peers: map[string]string{"a": "http://" + l.Addr().String(), "b": "http://127.0.0.1:1", "c": "http://127.0.0.1:2"},
		Fail:  func(err error) { t.Errorf("failed: %v", err) },
	}
	adjust(&cfg)
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

// held returns how much a node stores for callers.
func held(n *Node) (results, asks, barriers int, cost int64) {
	for i := range n.results.shards {
		n.results.shards[i].Lock()
		results += len(n.results.shards[i].byID)
		n.results.shards[i].Unlock()
		n.asks.shards[i].Lock()
		asks += len(n.asks.shards[i].byID)
		n.asks.shards[i].Unlock()
	}
	n.barriers.mu.Lock()
	defer n.barriers.mu.Unlock()
	return results, asks, len(n.barriers.waiting) + len(n.barriers.indexed), n.results.cost.Load()
}

func TestCallersThatLeaveStillCount(t *testing.T) {
	t.Parallel()
	n := lonely(t, func(cfg *Config) {
		cfg.MaxPendingBytes = 10_000
		cfg.ElectionTimeout = 200 * time.Millisecond // requests are kept for 8 of them
		cfg.RequestTimeout = 100 * time.Millisecond
	})
	put := func(ctx context.Context) error {
		_, err := n.Propose(ctx, &pb.PutRequest{Key: []byte("k"), Value: make([]byte, 1000)})
		return err
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	kept := 0
	for ; kept < 20; kept++ {
		if err := put(gone); err != nil && !errors.Is(err, context.Canceled) {
			if !errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests) {
				t.Errorf("with %d requests waiting: %v, want %v", kept, err, rpctypes.ErrGRPCRequestTooManyRequests)
			}
			break
		}
	}
	if kept < 7 || kept > 10 {
		t.Errorf("%d requests of 1,000 bytes wait, and 10,000 are the limit", kept)
	}
	for range 100 {
		n.KeepAlive(1)(gone)
		n.Barrier(gone)
	}
	// After a time nobody's request is kept but the member's own announcement,
	// and there is room again.
	deadline := time.Now().Add(20 * time.Second)
	for {
		results, asks, barriers, cost := held(n)
		if results < kept && asks+barriers == 0 && cost < 1000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still held: %d requests, %d asks, %d barriers, %d bytes", results, asks, barriers, cost)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := put(t.Context()); !errors.Is(err, rpctypes.ErrGRPCTimeoutDueToLeaderFail) {
		t.Errorf("a put without a leader: %v, want %v", err, rpctypes.ErrGRPCTimeoutDueToLeaderFail)
	}
}

// TestWhatIsDroppedMayHaveBeenDone: a caller is told that a request was not done only if it was not
// done and never will be.
func TestWhatIsDroppedMayHaveBeenDone(t *testing.T) {
	for _, tt := range []struct {
		leader    machine.NodeID
		ambiguous bool
		want      error
	}{
		{0, false, rpctypes.ErrGRPCNoLeader},
		{2, false, rpctypes.ErrGRPCRequestTooManyRequests},
		{0, true, rpctypes.ErrGRPCTimeoutDueToLeaderFail},
		{2, true, rpctypes.ErrGRPCTimeoutDueToLeaderFail},
	} {
		n := &Node{calls: calls{results: newWaits[result]()}}
		n.leadership.Store(&leadership{leader: tt.leader})
		answer := n.results.add(7, 100)
		n.handle([]replica.Outcome{replica.Dropped{IDs: []uint64{7}, Ambiguous: tt.ambiguous}})
		if got := <-answer; !errors.Is(got.err, tt.want) {
			t.Errorf("dropped with leader %d, perhaps done: %v: got %v, want %v", tt.leader, tt.ambiguous, got.err, tt.want)
		}
	}
}

func TestTimeoutsTellWhy(t *testing.T) {
	t.Parallel()
	n := lonely(t, func(cfg *Config) { cfg.RequestTimeout = 50 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := n.Propose(ctx, &pb.PutRequest{Key: []byte("k")})
	_, errLease := n.KeepAlive(1)(ctx)
	errBarrier := n.Barrier(ctx)
	n.order.Add(1) // as in key order
	_, errKeys := n.ReadView(ctx, &pb.RangeRequest{Key: []byte("k")})
	for call, err := range map[string]error{"put": err, "keep-alive": errLease, "barrier": errBarrier, "read of a key": errKeys} {
		if !errors.Is(err, rpctypes.ErrGRPCTimeoutDueToLeaderFail) {
			t.Errorf("%s without a leader: %v, want %v", call, err, rpctypes.ErrGRPCTimeoutDueToLeaderFail)
		}
	}
	now := time.Now()
	for _, tt := range []struct {
		l    leadership
		want error
	}{
		{leadership{leader: 1, at: now.Add(-time.Hour)}, rpctypes.ErrGRPCTimeout},
		{leadership{leader: 1, at: now.Add(-time.Second)}, rpctypes.ErrGRPCTimeoutDueToLeaderFail},
		{leadership{at: now.Add(-time.Hour)}, rpctypes.ErrGRPCTimeoutDueToLeaderFail},
	} {
		m := &Node{}
		m.leadership.Store(&tt.l)
		if got := m.timeout(now.Add(-5 * time.Second)); !errors.Is(got, tt.want) {
			t.Errorf("waiting 5 s under %+v: %v, want %v", tt.l, got, tt.want)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	cfg := single(t, t.TempDir())
	cfg.MaxLeases = 2
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	ctx := t.Context()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := n.Propose(ctx, &pb.LeaseGrantRequest{TTL: 60}); err != nil && !errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests) {
				t.Errorf("grant: %v", err)
			}
		})
	}
	all.Wait()
	for i := range 3 { // now and then a grant is refused that there is room for
		_, err := n.Propose(ctx, &pb.LeaseGrantRequest{TTL: 60})
		if want := rpctypes.ErrGRPCRequestTooManyRequests; i == 2 && !errors.Is(err, want) {
			t.Errorf("grant beyond the limit: %v", err)
		}
	}
	if got := n.View().Stats().Leases; got != 2 {
		t.Errorf("%d leases, want 2", got)
	}
	if _, err := n.Propose(ctx, &pb.PutRequest{Key: []byte("k"), Value: make([]byte, maxRequestBytes)}); !errors.Is(err, rpctypes.ErrGRPCRequestTooLarge) {
		t.Errorf("a put larger than a frame: %v, want %v", err, rpctypes.ErrGRPCRequestTooLarge)
	}
	if _, err := n.Propose(ctx, &pb.RangeRequest{Key: []byte("k")}); err == nil {
		t.Error("a range was replicated")
	}
}

// A grant that finishes while leases are counted is not missed.
func TestAGrantThatFinishesMeanwhileCounts(t *testing.T) {
	granting, granted := int64(3), int64(4)
	finishes := func(count *int64) func() int64 {
		return func() int64 {
			n := *count
			granting, granted = granting-1, granted+1
			return n
		}
	}
	if n := leases(finishes(&granting), finishes(&granted)); n < 7 {
		t.Errorf("%d leases are counted where there are 7, or are about to be", n)
	}
}

// TestLargestRequestReachesAll sends the largest request by way of another member, so that it reaches
// the leader's log and all disks. Heartbeats wait behind it, and under the race detector it is slow,
// so the cluster has long election timeouts.
func TestLargestRequestReachesAll(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) {
		cfg.HeartbeatInterval, cfg.ElectionTimeout = 200*time.Millisecond, 3*time.Second
	})
	from := (c.leader() + 1) % 3
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if _, err := c.nodes[from].Propose(ctx, &pb.PutRequest{Key: []byte("k"), Value: make([]byte, maxRequestBytes-100)}); err != nil {
		t.Errorf("a put as large as may be: %v", err)
	}
	for i := range c.nodes {
		if got := len(c.get(i, "k")); got != maxRequestBytes-100 {
			t.Errorf("member %d has %d bytes", i, got)
		}
	}
}

// The remaining time of a lease is reported in whole seconds, rounded down.
func TestTimeToLiveIsRoundedDown(t *testing.T) {
	n := newCluster(t, 1).nodes[0]
	answered := func(a replica.AnswerLease, ask func()) {
		hold := make(chan struct{})
		n.driver.Gather(func() (replica.Input, bool) { <-hold; return nil, false }) // the replica does not answer before
		defer close(hold)
		done := make(chan struct{})
		go func() { ask(); close(done) }()
		for {
			for i := range n.asks.shards {
				n.asks.shards[i].Lock()
				ids := slices.Collect(maps.Keys(n.asks.shards[i].byID))
				n.asks.shards[i].Unlock()
				for _, id := range ids {
					n.asks.answer(id, askResult{answer: a})
				}
			}
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
	}
	for _, tt := range []struct{ ttl, remaining, left, granted int64 }{
		{90_000, 90_000, 89, 90}, {90_000, 89_001, 89, 90}, {90_000, 89_000, 88, 90}, {90_000, 1, 0, 90}, {90_000, 0, 0, 90}, {0, 0, -1, 0},
	} {
		a := replica.AnswerLease{TTL: tt.ttl, Remaining: tt.remaining}
		answered(a, func() {
			if left, granted, err := n.TimeToLive(t.Context(), 7); err != nil || left != tt.left || granted != tt.granted {
				t.Errorf("%d ms of %d ms are left: told %d s of %d s, %v; want %d s of %d s", tt.remaining, tt.ttl, left, granted, err, tt.left, tt.granted)
			}
		})
		answered(a, func() {
			if ttl, err := n.KeepAlive(7)(t.Context()); err != nil || ttl != tt.granted {
				t.Errorf("renewed for %d ms: told %d s, %v; want %d s", tt.ttl, ttl, err, tt.granted)
			}
		})
	}
}

// A senseless message is dropped. The messages before and after it are processed.
func TestOneBadMessageStopsNoOther(t *testing.T) {
	c := newCluster(t, 2, nimble)
	c.leader()
	n := c.nodes[0]
	id := machine.NodeID(c.nodes[1].ID())
	c.until("it is known", func() bool { return n.directories.get().Known[uint64(id)].Directory != 0 })
	c.until("it takes part", n.admission.open.Load)
	known := n.directories.get().Known[uint64(id)]
	greet := func(starts uint64) []byte {
		return fmt.Appendf([]byte{wireGreeting}, `{"from":{"directory":%d,"boot":%d}}`, known.Directory, known.Boot+starts<<32)
	}
	for i, bad := range [][]byte{{}, {63}, {0, 1, 2}} {
		n.deliver(id, [][]byte{bad, greet(uint64(i) + 1)})
		if got, want := n.directories.get().Known[uint64(id)].Boot, known.Boot+(uint64(i)+1)<<32; got != want {
			t.Errorf("behind a message of %d bytes that makes no sense a greeting is not heard: start %x is remembered, want %x", len(bad), got, want)
		}
	}
	st, _ := n.Status()
	term := st.Term + 9
	p, err := replica.EncodeBody(&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: &term, From: new(uint64(id)), To: new(n.ID()), Index: new(uint64), Reject: new(bool)})
	if err != nil {
		t.Fatal(err)
	}
	for _, msgs := range [][][]byte{{p, {63}}, {{63}, p}} {
		n.deliver(id, msgs)
		c.until("a message beside one that makes no sense is stepped", func() bool { st, ok := n.Status(); return ok && st.Term >= term })
		term = st.Term
	}
}
