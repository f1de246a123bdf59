package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/tenure-lease/tenure/internal/core/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A member without a leader asks again and again for the members, for the one that answers may
// learn of them later. An answer about another cluster is ignored.
func TestLooksAroundAgain(t *testing.T) {
	var says atomic.Pointer[introduction]
	says.Store(&introduction{})
	asked := make(chan struct{}, 100)
	ln := listen(t)
	b, err := peer.New(peer.Config{
		Self: 99, ClusterID: 1, Listener: ln, Logger: slog.New(slog.DiscardHandler), Deliver: func(machine.NodeID, [][]byte) {},
		Answer: func([]byte) []byte {
			select {
			case asked <- struct{}{}:
			default:
			}
			p, err := json.Marshal(says.Load())
			if err != nil {
				t.Error(err)
			}
			return p
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	n := lonely(t, func(cfg *Config) { cfg.Peers["b"] = "http://" + ln.Addr().String() })
	heard := func() map[machine.NodeID]string {
		n.contacts.mu.Lock()
		defer n.contacts.mu.Unlock()
		return maps.Clone(n.contacts.heard)
	}
	again := func(times int) {
		t.Helper()
		for len(asked) > 0 {
			<-asked
		}
		for i := range times {
			select {
			case <-asked:
			case <-time.After(20 * time.Second):
				t.Fatalf("a member without a leader does not look around again, behind %d times", i)
			}
		}
	}
	newcomer := []founder{{ID: 77, URL: "http://127.0.0.1:7"}}
	says.Store(&introduction{Cluster: n.cluster + 1, Members: newcomer})
	again(4) // with the fourth, the third answer was taken in
	if got := heard(); len(got) > 0 {
		t.Errorf("of another cluster's members this one has heard of %v", got)
	}
	says.Store(&introduction{Cluster: n.cluster, Members: newcomer})
	again(4)
	if got := heard(); got[77] != "127.0.0.1:7" {
		t.Errorf("of a new member this one has heard %v", got)
	}
}

func TestWithALeaderNobodyIsAsked(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	n.leadership.Store(&leadership{leader: 77, at: time.Now()})
	c := &n.contacts
	asked := func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.asked
	}
	idle := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.asking
	}
	for !idle() {
		time.Sleep(time.Millisecond)
	}
	before := asked()
	c.mu.Lock()
	c.turn = 3
	c.mu.Unlock()
	n.lookAround(time.Now().Add(time.Hour))
	if !asked().Equal(before) {
		t.Error("a member with a leader looks around")
	}
	if c.turn != 0 {
		t.Error("a member with a leader does not go by its log")
	}
}

// The question for the members uses the configured Dial.
func TestMembersAreAskedByTheConfiguredDial(t *testing.T) {
	unreachable := errors.New("there is no way")
	var dialed string
	n := &Node{cfg: Config{Dial: func(_ context.Context, addr string) (net.Conn, error) {
		dialed = addr
		return nil, unreachable
	}}}
	if _, err := n.askMembers(t.Context(), "127.0.0.1:1"); !errors.Is(err, unreachable) || dialed != "127.0.0.1:1" {
		t.Errorf("Config.Dial was called for %q, and asking failed with %v; want that of Config.Dial", dialed, err)
	}
}

// Members are dialed where the log says, but for this one, for those that are nowhere, and for one
// whose URL this one has by now.
func TestWhereMembersAre(t *testing.T) {
	var log strings.Builder
	n := &Node{id: 1, logger: slog.New(slog.NewTextHandler(&log, nil)), cfg: Config{Name: "a", Peers: map[string]string{"a": "http://a:1", "b": "http://b:1"}}}
	got := n.addresses(replica.Roster{Members: []*pb.Member{
		{ID: 1, PeerURLs: []string{"http://old:1"}},
		{ID: 2, PeerURLs: []string{"http://b:2", "http://other:2"}},
		{ID: 3, PeerURLs: []string{"http://a:1"}},
		{ID: 4, PeerURLs: []string{"http://nowhere"}, Name: "d"},
		{ID: 5},
		{ID: 6, PeerURLs: []string{"http://f:6"}, IsLearner: true},
	}})
	if want := map[machine.NodeID]string{2: "b:2", 6: "f:6"}; !maps.Equal(got, want) {
		t.Errorf("it dials %v, want %v", got, want)
	}
	if k := strings.Count(log.String(), "cannot be reached"); k != 2 || !strings.Contains(log.String(), "member=4 name=d") || !strings.Contains(log.String(), "member=5") {
		t.Errorf("of two members that are nowhere the log says %s", log.String())
	}
}

// Each fourth time that a leader is looked for, members whose URLs the flags do not have are looked for at the
// URLs of the flags that the log does not have.
func TestMembersAreLookedForWhereTheFlagsSay(t *testing.T) {
	roster := replica.Roster{Members: []*pb.Member{
		{ID: 1, PeerURLs: []string{"http://a:1"}}, {ID: 2, PeerURLs: []string{"http://b:1"}},
		{ID: 3, PeerURLs: []string{"http://c:1"}}, {ID: 4, PeerURLs: []string{"http://d:1"}},
	}}
	stays := map[uint64]string{}
	for name, tt := range map[string]struct {
		flags       []string
		third, last map[uint64]string
	}{
		"the flags are as the log":          {[]string{"http://a:1", "http://b:1", "http://c:1", "http://d:1"}, stays, stays},
		"one has moved":                     {[]string{"http://a:1", "http://b:9", "http://c:1", "http://d:1"}, map[uint64]string{2: "http://b:9"}, map[uint64]string{2: "http://b:9"}},
		"two have moved":                    {[]string{"http://a:1", "http://b:9", "http://c:1", "http://d:9"}, map[uint64]string{2: "http://b:9", 4: "http://d:9"}, map[uint64]string{2: "http://d:9", 4: "http://b:9"}},
		"the flags do not name all":         {[]string{"http://a:1", "http://b:1"}, stays, stays},
		"another has come, whom no log has": {[]string{"http://a:1", "http://b:1", "http://c:1", "http://d:1", "http://e:1"}, stays, stays},
		"this one has moved, and no other":  {[]string{"http://a:9", "http://b:1", "http://c:1", "http://d:1"}, stays, stays},
	} {
		n := &Node{id: 1, cfg: Config{Name: "m0", Peers: map[string]string{}, Existing: true}}
		for i, url := range tt.flags {
			n.cfg.Peers[fmt.Sprintf("m%d", i)] = url
		}
		for turn := range 8 {
			n.contacts.turn = turn
			want := stays
			switch turn {
			case 3:
				want = tt.third
			case 7:
				want = tt.last
			}
			if got := n.elsewhere(roster); !maps.Equal(got, want) {
				t.Errorf("%s, turn %d: looked for at %v, want %v", name, turn, got, want)
			}
		}
		n.cfg.Existing, n.contacts.turn = false, 3
		if got := n.elsewhere(roster); len(got) > 0 {
			t.Errorf("%s: by flags of the first day members are looked for at %v", name, got)
		}
	}
}

// For how long there has been no leader counts from when the last one was lost, however many terms
// have begun since.
func TestForHowLongThereIsNoLeader(t *testing.T) {
	n := &Node{id: 1, logger: slog.New(slog.DiscardHandler)}
	long := time.Now().Add(-time.Hour)
	n.leadership.Store(&leadership{at: long})
	n.leaderChanged(replica.LeaderChanged{Term: 2})
	if id, term, lost := n.Leader(); id != 0 || term != 2 || lost < time.Hour {
		t.Errorf("in another term without a leader: leader %d of term %d, lost for %v; want none of term 2, for an hour", id, term, lost)
	}
	n.leaderChanged(replica.LeaderChanged{Leader: 5, Term: 3})
	if id, term, lost := n.Leader(); id != 5 || term != 3 || lost != 0 {
		t.Errorf("with a leader: %d of term %d, lost for %v", id, term, lost)
	}
	if at := n.leadership.Load().at; time.Since(at) > time.Minute {
		t.Errorf("the leader that came now leads since %v", at)
	}
	n.leadership.Load().at = long
	n.leaderChanged(replica.LeaderChanged{Term: 4})
	if id, _, lost := n.Leader(); id != 0 || lost > time.Minute {
		t.Errorf("a leader that was there for an hour was lost now: leader %d, lost for %v", id, lost)
	}
}
