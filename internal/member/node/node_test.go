package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is n members in this process.
type cluster struct {
	t     testing.TB
	cfgs  []Config
	nodes []*Node
}

func newCluster(t testing.TB, size int, adjust ...func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, nodes: make([]*Node, size)}
	peers := map[string]string{}
	for i := range size {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("m%d", i)
		peers[name] = "http://" + l.Addr().String()
		c.cfgs = append(c.cfgs, Config{
			Name: name, DataDir: t.TempDir(), Peers: peers, PeerListener: l,
			ClientURLs: []string{"http://client-of-" + name}, Logger: slog.New(slog.DiscardHandler),
			Fail: func(err error) { t.Errorf("member %s failed: %v", name, err) },
		})
		for _, f := range adjust {
			f(&c.cfgs[i])
		}
	}
	for i := range size {
		if c.cfgs[i].DataDir != "" { // else the test starts it
			c.start(i)
		}
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			if n != nil {
				n.Stop()
			}
		}
	})
	return c
}

// nimble makes elections fast, for tests that lose leaders.
func nimble(cfg *Config) {
	cfg.HeartbeatInterval, cfg.ElectionTimeout = 30*time.Millisecond, 300*time.Millisecond
}

func (c *cluster) start(i int) {
	c.t.Helper()
	cfg := c.cfgs[i]
	if cfg.PeerListener == nil {
		cfg.PeerListener = listenAgain(c.t, cfg.Peers[cfg.Name][len("http://"):])
	}
	n, err := Start(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.cfgs[i].PeerListener = nil
	c.nodes[i] = n
}

// listenAgain listens at a former member's address. Another process's test may have taken the port
// meanwhile.
func listenAgain(t testing.TB, addr string) net.Listener {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return l
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func (c *cluster) kill(i int) {
	c.nodes[i].Stop()
	c.nodes[i] = nil
}

// leader waits for a leader that all living members agree on.
func (c *cluster) leader() int {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute) // clocks may be slow, and votes split
	for time.Now().Before(deadline) {
		agreed, at := true, -1
		var lead uint64
		for i, n := range c.nodes {
			if n == nil {
				continue
			}
			id, _, _ := n.Leader()
			if id == 0 || lead != 0 && id != lead {
				agreed = false
			}
			lead = id
			if id == n.ID() {
				at = i
			}
		}
		if agreed && at >= 0 {
			return at
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Fatal("no leader in a minute")
	return -1
}

// put may be done twice; compare putOnce.
func (c *cluster) put(i int, key, value string) int64 {
	c.t.Helper()
	return c.putWhile(leaderless, i, key, value)
}

// putOnce is for tests that count revisions.
func (c *cluster) putOnce(i int, key, value string) int64 {
	c.t.Helper()
	return c.putWhile(undone, i, key, value)
}

func (c *cluster) putWhile(again func(error) bool, i int, key, value string) (revision int64) {
	c.t.Helper()
	err := patiently(again, func(ctx context.Context) error {
		resp, err := c.nodes[i].Propose(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
		if err == nil {
			revision = resp.(*pb.PutResponse).Header.Revision
		}
		return err
	})
	if err != nil {
		c.t.Fatalf("put %s at %d: %v", key, i, err)
	}
	return revision
}

func (c *cluster) get(i int, key string) string {
	c.t.Helper()
	if err := patiently(leaderless, c.nodes[i].Barrier); err != nil {
		c.t.Fatalf("barrier at %d: %v", i, err)
	}
	resp, err := c.nodes[i].View().Range(&pb.RangeRequest{Key: []byte(key)})
	if err != nil {
		c.t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func TestOneMemberKeepsAllOverRestarts(t *testing.T) {
	c := newCluster(t, 1)
	for i := range 100 {
		c.putOnce(0, fmt.Sprintf("k%d", i%10), fmt.Sprint(i))
	}
	c.kill(0)
	c.start(0)
	for i := range 10 {
		if got, want := c.get(0, fmt.Sprintf("k%d", i)), fmt.Sprint(90+i); got != want {
			t.Errorf("k%d = %q after a restart, want %q", i, got, want)
		}
	}
	if got := c.putOnce(0, "more", "x"); got != 102 {
		t.Errorf("revision %d after the restart, want 102", got)
	}
}

func TestThreeMembersLoseAnyOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	lead := c.leader()
	for i := range 30 {
		c.put(i%3, fmt.Sprintf("k%d", i), fmt.Sprint(i))
	}
	c.kill(lead)
	began := time.Now()
	other := (lead + 1) % 3
	c.put(other, "after", "the leader")
	t.Logf("a write %v after the leader stopped", time.Since(began))
	c.start(lead)
	for i := range 30 {
		if got := c.get(lead, fmt.Sprintf("k%d", i)); got != fmt.Sprint(i) {
			t.Errorf("k%d = %q at the returned member", i, got)
		}
	}
	if got := c.get(lead, "after"); got != "the leader" {
		t.Errorf("after = %q at the returned member", got)
	}
}

func TestLeaseLivesAndDies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.leader()
	ctx := t.Context()
	resp, err := c.nodes[0].Propose(ctx, &pb.LeaseGrantRequest{TTL: 1})
	if err != nil {
		t.Fatal(err)
	}
	lease := resp.(*pb.LeaseGrantResponse)
	if lease.TTL != 2 || lease.ID <= 0 {
		t.Errorf("granted id %d, ttl %d; want a positive id and the minimum of 2 s", lease.ID, lease.TTL)
	}
	if _, err := c.nodes[1].Propose(ctx, &pb.PutRequest{Key: []byte("mine"), Lease: lease.ID}); err != nil {
		t.Fatal(err)
	}
	// Renewed through any member it outlives its TTL.
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(500 * time.Millisecond) {
		for i, n := range c.nodes {
			if ttl, err := n.KeepAlive(lease.ID)(ctx); err != nil || ttl != 2 {
				t.Fatalf("keep-alive at member %d: ttl %d, %v", i, ttl, err)
			}
		}
	}
	if left, granted, err := c.nodes[2].TimeToLive(ctx, lease.ID); err != nil || granted != 2 || left < 0 || left > 2 {
		t.Errorf("time to live %d of %d, %v", left, granted, err)
	}
	gone := time.Now()
	for {
		if _, ok := c.nodes[0].View().Lease(lease.ID); !ok {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if d := time.Since(gone); d < time.Second || d > 4*time.Second {
		t.Errorf("unrenewed, it was gone after %v; want about 2 s", d)
	}
	if got := c.get(1, "mine"); got != "" {
		t.Errorf("its key outlived it: %q", got)
	}
	if ttl, err := c.nodes[1].KeepAlive(lease.ID)(ctx); err != nil || ttl != 0 {
		t.Errorf("keep-alive of a lease that is gone: ttl %d, %v; want 0", ttl, err)
	}
	if left, _, err := c.nodes[1].TimeToLive(ctx, lease.ID); err != nil || left != -1 {
		t.Errorf("time to live of a lease that is gone: %d, %v; want -1", left, err)
	}
}

func TestFollowerCatchesUpBySnapshot(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.MaxTailBytes = 256 << 10 })
	lead := c.leader()
	away := (lead + 1) % 3
	c.kill(away)
	value := string(make([]byte, 4096))
	for i := range 300 {
		c.put(lead, fmt.Sprintf("k%d", i%50), fmt.Sprintf("%d%s", i, value))
	}
	c.start(away)
	for i := 250; i < 300; i++ {
		if got := c.get(away, fmt.Sprintf("k%d", i%50)); got != fmt.Sprintf("%d%s", i, value) {
			t.Fatalf("k%d is wrong at the member that was away", i%50)
		}
	}
	if newest := c.nodes[away].storage.newest; newest < 100 {
		t.Errorf("it caught up without a snapshot: newest %d", newest)
	}
	c.kill(away)
	c.start(away)
	if got := c.get(away, "k49"); got != "299"+value {
		t.Error("after another restart it lost what it had caught up with")
	}
}
