package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// newcomer adds a member through another and starts it.
func (c *cluster) newcomer(through int, name, at string, learner bool) (i int, m *pb.Member) {
	c.t.Helper()
	l := listenAgain(c.t, at)
	url := "http://" + l.Addr().String()
	m = c.add(through, url, learner)
	peers := map[string]string{name: url}
	for i, n := range c.nodes { // those that it asks
		if n != nil {
			peers[c.cfgs[i].Name] = c.cfgs[i].Peers[c.cfgs[i].Name]
		}
	}
	cfg := Config{
		Name: name, DataDir: c.t.TempDir(), Peers: peers, PeerListener: l, Existing: true,
		ClientURLs: []string{"http://client-of-" + name}, Logger: slog.New(slog.DiscardHandler),
		Fail: func(err error) { c.t.Errorf("member %s failed: %v", name, err) },
	}
	nimble(&cfg)
	c.cfgs, c.nodes = append(c.cfgs, cfg), append(c.nodes, nil)
	i = len(c.nodes) - 1
	c.start(i)
	return i, m
}

func (c *cluster) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	c.t.Cleanup(cancel)
	return ctx
}

// eventually repeats a check until it holds.
func (c *cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not in 20 s", what)
		}
	}
}

func TestMembersComeAndGo(t *testing.T) {
	out := make(chan error, 1)
	c := newCluster(t, 3, nimble, func(cfg *Config) {
		cfg.MaxTailBytes = 64 << 10 // the newcomer needs a snapshot
		if cfg.Name == "m2" {
			cfg.Fail = func(err error) { out <- err }
		}
	})
	for range 50 {
		c.put(0, "filler", strings.Repeat("x", 4096))
	}
	c.put(0, "k", "before")
	learner, m := c.newcomer(1, "m3", "127.0.0.1:0", true)
	if got := c.get(learner, "k"); got != "before" {
		t.Errorf("the newcomer reads %q", got)
	}
	c.eventually("its vote", func() bool {
		list, err := c.nodes[learner].PromoteMember(c.ctx(), m.ID)
		if err != nil && !errors.Is(err, rpctypes.ErrGRPCLearnerNotReady) && !undone(err) {
			t.Fatal(err)
		}
		return err == nil && len(list) == 4
	})

	two := c.nodes[2].ID()
	if left := c.remove(learner, two); left != 3 {
		t.Fatalf("remove: %d are left", left)
	}
	select {
	case err := <-out:
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("the one that was removed ends with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the one that was removed goes on")
	}
	c.kill(2)
	again := c.cfgs[2]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	again.PeerListener = l
	if _, err := Start(again); !errors.Is(err, ErrRemoved) {
		t.Errorf("it starts again: %v", err)
	}
	if _, err := c.nodes[0].RemoveMember(c.ctx(), two); !errors.Is(err, rpctypes.ErrGRPCMemberNotFound) {
		t.Errorf("removed again: %v", err)
	}

	// The remaining members know each other after a restart, however the change was told.
	for _, i := range []int{learner, 0, 1} {
		c.kill(i)
		c.cfgs[i].Existing = true
		c.start(i)
		c.put(i, "k", "after")
	}
	for _, i := range []int{0, 1, learner} {
		if got := c.get(i, "k"); got != "after" {
			t.Errorf("member %d reads %q", i, got)
		}
		if got := len(c.nodes[i].Members()); got != 3 {
			t.Errorf("member %d knows %d members", i, got)
		}
	}
}

// A member that was away when it was removed learns of that when it comes back, and ends. The others
// keep its connections only for a while.
func TestRemovedWhileAway(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	two := c.nodes[2].ID()
	c.kill(2)
	c.remove(1, two)
	ended := make(chan error, 1)
	c.cfgs[2].Fail = func(err error) { ended <- err }
	c.start(2)
	select {
	case err := <-ended:
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("it ended because of %v, want %v", err, ErrRemoved)
		}
	case <-time.After(30 * time.Second):
		t.Error("a member was removed while it was away; 30 s after it came back nobody has told it")
	}
}

// A member whose disk was lost comes back at its old URL as a new member.
func TestLostDiskIsReplaced(t *testing.T) {
	c := newCluster(t, 3, nimble)
	for range 3 {
		c.put(0, "k", "v")
	}
	c.leader()
	lost, at := c.nodes[2].ID(), c.cfgs[2].Peers["m2"][len("http://"):]
	c.kill(2)
	c.remove(1, lost)
	i, m := c.newcomer(0, "m2", at, false)
	if m.ID == lost {
		t.Errorf("it has its old ID")
	}
	if got := c.get(i, "k"); got != "v" {
		t.Errorf("it reads %q", got)
	}
	c.eventually("its name and URLs", func() bool {
		for _, m := range c.nodes[0].Members() {
			if m.Name == "" || len(m.ClientURLs) == 0 {
				return false
			}
		}
		return true
	})
	c.kill(1) // two of three are left
	c.put(i, "k", "w")
}

// A cluster of one grows by a second member, which then takes over from the first.
func TestOneMemberIsReplaced(t *testing.T) {
	out := make(chan error, 1)
	c := newCluster(t, 1, nimble, func(cfg *Config) { cfg.Fail = func(err error) { out <- err } })
	c.put(0, "k", "v")
	i, _ := c.newcomer(0, "m1", "127.0.0.1:0", false)
	if got := c.get(i, "k"); got != "v" {
		t.Errorf("it reads %q", got)
	}
	c.remove(i, c.nodes[0].ID())
	c.put(i, "k", "w")
	select {
	case <-out:
	case <-time.After(20 * time.Second):
		t.Fatal("the one that was removed goes on")
	}
	c.kill(0)
	c.kill(i)
	c.start(i)
	if got := c.get(i, "k"); got != "w" {
		t.Errorf("alone it reads %q", got)
	}
}

// A member without its disk has forgotten its votes. It must not come back under its old identity.
func TestLostDiskOfOneThatJoined(t *testing.T) {
	c := newCluster(t, 3, nimble)
	i, m := c.newcomer(0, "m3", "127.0.0.1:0", false)
	c.eventually("its name is known everywhere", func() bool {
		for _, n := range c.nodes {
			for _, o := range n.Members() {
				if o.ID == m.ID && o.Name == "" {
					return false
				}
			}
		}
		return true
	})
	c.kill(i)
	l := listenAgain(t, c.cfgs[i].Peers["m3"][len("http://"):])
	cfg := c.cfgs[i]
	cfg.PeerListener, cfg.DataDir, cfg.RequestTimeout = l, t.TempDir(), 20*time.Second
	if n, err := Start(cfg); err == nil {
		n.Stop()
		t.Error("it has started")
	} else if !strings.Contains(err.Error(), "has run before") {
		t.Errorf("it is told: %v", err)
	}
}

func TestJoinWithoutBeingAdded(t *testing.T) {
	c := newCluster(t, 1, nimble)
	c.put(0, "k", "v")
	for patience := time.Second; ; patience *= 4 { // for one answer at least, on a machine of any speed
		l := listen(t)
		n, err := Start(Config{
			Name: "x", DataDir: t.TempDir(), PeerListener: l, Existing: true, RequestTimeout: patience,
			Peers:  map[string]string{"x": "http://" + l.Addr().String(), "m0": c.cfgs[0].Peers["m0"]},
			Logger: slog.New(slog.DiscardHandler), Fail: func(err error) { t.Error(err) },
		})
		if err == nil {
			n.Stop()
			t.Fatal("it has started")
		}
		if strings.Contains(err.Error(), "knows no member at") {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) || patience > time.Minute {
			t.Fatalf("one that was not added is told: %v", err)
		}
	}
	if _, _, err := c.nodes[0].AddMember(c.ctx(), []string{"nowhere"}, true); !errors.Is(err, rpctypes.ErrGRPCMemberBadURLs) {
		t.Errorf("a URL that is none: %v", err)
	}
	if _, _, err := c.nodes[0].AddMember(c.ctx(), []string{c.cfgs[0].Peers["m0"]}, true); !errors.Is(err, rpctypes.ErrGRPCPeerURLExist) {
		t.Errorf("a URL that is taken: %v", err)
	}
}

// A member that was away while all others were replaced knows none of them when it comes back. Its
// operator names present members, and it asks those.
func TestAllOthersAreReplaced(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.Fail = func(error) {} })
	c.leader()
	c.put(2, "k", "before")
	c.kill(2)
	through := 0
	for _, old := range []int{0, 1} {
		i, m := c.newcomer(1, fmt.Sprintf("n%d", old), "127.0.0.1:0", true)
		c.eventually("its vote", func() bool {
			_, err := c.nodes[i].PromoteMember(c.ctx(), m.ID)
			return err == nil
		})
		c.eventually("a removal", func() bool {
			_, err := c.nodes[i].RemoveMember(c.ctx(), c.nodes[old].ID())
			return err == nil || errors.Is(err, rpctypes.ErrGRPCMemberNotFound)
		})
		c.kill(old)
		through = i
	}
	c.put(through, "k", "after")
	old := c.cfgs[2].Peers
	c.cfgs[2].Existing, c.cfgs[2].Peers = true, map[string]string{"m2": old["m2"], "n1": c.cfgs[through].Peers["n1"]}
	c.start(2)
	if got := c.get(2, "k"); got != "after" {
		t.Errorf("it reads %q", got)
	}
}
