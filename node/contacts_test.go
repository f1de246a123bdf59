package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/peer"
)

// A member without a leader asks who the members are, again and again: the one
// that answers may hear of them later. An answer about another cluster is ignored.
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
	n.lookAround(time.Now().Add(time.Hour))
	if !asked().Equal(before) {
		t.Error("a member with a leader looks around")
	}
}

// Who asks for the members goes the way that the configuration says.
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
