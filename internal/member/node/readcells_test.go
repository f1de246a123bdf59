package node

import (
	"errors"
	"github.com/tenure-lease/tenure/internal/core/replica"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/placement"
)

// local waits until a member answers reads of a key by itself, or does not.
func (c *cluster) local(i int, key string, want bool) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		before, _, _ := c.nodes[i].ReadCounts()
		if _, err := c.nodes[i].ReadView(c.t.Context(), &pb.RangeRequest{Key: []byte(key)}); leaderless(err) {
			continue
		} else if err != nil {
			c.t.Fatal(err)
		}
		if after, _, _ := c.nodes[i].ReadCounts(); after > before == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.t.Fatalf("member %d: reads of %s by itself: want %v, in 20 s", i, key, want)
}

// Keys that are divided by hand are read by the members that the text names, and by the leader.
func TestReadCells(t *testing.T) {
	c := newCluster(t, 3, func(cfg *Config) { cfg.ReadLeaseTTL = time.Second })
	lead := c.leader()
	c.put(lead, "a", "v")
	a, b := (lead+1)%3, (lead+2)%3
	text := "key:a = " + c.cfgs[a].Name + "; default = " + c.cfgs[b].Name
	if err := c.nodes[a].SetReadCells(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	c.local(a, "a", true)
	c.local(a, "b", false)
	c.local(b, "b", true)
	c.local(b, "a", false)
	c.local(lead, "a", true)
	c.local(lead, "b", true)
	c.put(b, "a", "w")
	if err := c.nodes[a].SetReadCells(t.Context(), "default = nobody"); !errors.Is(err, placement.ErrConfiguration) {
		t.Errorf("holders that there are not: %v", err)
	}
}

// Under a policy that plans, a member that reads a key comes to hold it.
func TestReadPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as two plans")
	}
	c := newCluster(t, 3, func(cfg *Config) { cfg.ReadLeaseTTL, cfg.ReadLease = time.Second, "quorum/key" })
	lead := c.leader()
	c.put(lead, "k", "v")
	reader := (lead + 1) % 3
	deadline := time.Now().Add(40 * time.Second)
	for planned := false; !planned; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is planned in 40 s")
		}
		if _, err := c.nodes[reader].ReadView(t.Context(), &pb.RangeRequest{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
		st, _ := c.nodes[lead].Status()
		planned = st.ReadLeases.Cells != nil
		time.Sleep(5 * time.Millisecond)
	}
	c.local(reader, "k", true)
}

// Members are called by their own names or, until they have started, by their names in the flags.
func TestCellsNameMembersThatHaveNotStarted(t *testing.T) {
	n := &Node{founders: []*pb.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}}}
	n.ahead.Store(&[]*state{{roster: replica.Roster{Members: []*pb.Member{{ID: 1, Name: "renamed"}, {ID: 2}, {ID: 3}}}}})
	for text, want := range map[string]placement.Set{"default = renamed": 1, "default = b": 2, "default = renamed, b": 3} {
		conf, err := n.parseCells(text, 0)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := conf.Default(); got != want {
			t.Errorf("%s: held by %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{"default = a", "default = c"} {
		if _, err := n.parseCells(text, 0); !errors.Is(err, placement.ErrConfiguration) {
			t.Errorf("%s, of a member that is not called so: %v, want %v", text, err, placement.ErrConfiguration)
		}
	}
}
