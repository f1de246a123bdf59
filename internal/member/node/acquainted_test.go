package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// rosterOf is a roster of members at addresses m:ID. Some other members were removed.
func rosterOf(ids []uint64, removed ...uint64) replica.Roster {
	var members []*pb.Member
	for _, id := range ids {
		members = append(members, &pb.Member{ID: id, PeerURLs: []string{fmt.Sprintf("http://m:%d", id)}})
	}
	ro := replica.FoundedBy(members)
	ro.Removed = removed
	return ro
}

func addressesOf(ids ...machine.NodeID) map[machine.NodeID]string {
	addrs := map[machine.NodeID]string{}
	for _, id := range ids {
		addrs[id] = fmt.Sprintf("m:%d", id)
	}
	return addrs
}

// A removed member keeps its connection for an election timeout, so that it learns of its removal. The
// connections are then those of the newest members.
func TestWhoWasRemovedKeepsItsConnectionForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, links := linked(t)
		defer n.end()
		is := func(when string, want ...notedPeers) {
			t.Helper()
			synctest.Wait()
			links.mu.Lock()
			defer links.mu.Unlock()
			if !reflect.DeepEqual(links.peers, want) {
				t.Errorf("%s: connections are made to %v, want %v", when, links.peers, want)
			}
			links.peers = nil
		}
		change := func(now replica.Roster) {
			n.is(now)
			n.reconnect(now)
		}
		change(rosterOf([]uint64{1, 2, 3}))
		is("at first", notedPeers{addressesOf(2, 3), nil})
		change(rosterOf([]uint64{1, 2}, 3))
		is("one was removed", notedPeers{addressesOf(2, 3), nil})
		time.Sleep(n.cfg.ElectionTimeout - 1)
		is("before an election timeout is over")
		n.is(rosterOf([]uint64{1, 2, 4}, 3))
		time.Sleep(time.Nanosecond)
		is("an election timeout later", notedPeers{addressesOf(2, 4), []machine.NodeID{3}})
		change(rosterOf([]uint64{1, 2, 4}, 3))
		is("another was added", notedPeers{addressesOf(2, 4), []machine.NodeID{3}})
		change(rosterOf([]uint64{1, 2}, 3, 4))
		is("that one was removed, too", notedPeers{addressesOf(2, 4), []machine.NodeID{3}})
		time.Sleep(n.cfg.ElectionTimeout)
		is("an election timeout later", notedPeers{addressesOf(2), []machine.NodeID{3, 4}})
	})
}

// A member that is moved while it is connected keeps its connection for an election timeout, so that
// it learns of the move. Otherwise a move that the member itself was asked for might never be in force
// at that member. A member that is not connected is dialed at its new address at once.
func TestAMovedMemberKeepsItsConnectionForAWhile(t *testing.T) {
	for name, connected := range map[string]bool{"connected": true, "not connected": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _, links := linked(t)
				defer n.end()
				change := func(now replica.Roster) {
					n.is(now)
					n.reconnect(now)
					synctest.Wait()
				}
				at := func() string {
					links.mu.Lock()
					defer links.mu.Unlock()
					return links.peers[len(links.peers)-1].addrs[2]
				}
				change(rosterOf([]uint64{1, 2, 3}))
				links.stats[2] = peer.Stats{Connected: connected}
				moved := rosterOf([]uint64{1, 2, 3})
				moved.Members[1].PeerURLs = []string{"http://elsewhere:2"}
				change(moved)
				first, want := at(), map[bool]string{true: "m:2", false: "elsewhere:2"}[connected]
				if first != want {
					t.Errorf("once it was moved, it is connected to at %s, want %s", first, want)
				}
				time.Sleep(n.cfg.ElectionTimeout)
				synctest.Wait()
				if got := at(); got != "elsewhere:2" {
					t.Errorf("an election timeout later it is connected to at %s", got)
				}
			})
		})
	}
}

// Members that are known by hearsay are connected along with those that the log knows, until the log
// has them, or has their removal.
func TestHearsayIsConnected(t *testing.T) {
	n, _, links := linked(t)
	n.is(rosterOf([]uint64{1, 2}, 9))
	meets := []founder{{1, "http://x:1"}, {2, "http://x:2"}, {7, "http://m:7"}, {8, "http://m:8"}, {9, "http://m:9"}, {0, "http://m:5"}, {6, "nowhere"}}
	n.meet(meets)
	if want := (notedPeers{addressesOf(2, 7, 8), []machine.NodeID{9}}); !reflect.DeepEqual(links.peers, []notedPeers{want}) {
		t.Errorf("connections are made to %v, want %v", links.peers, want)
	}
	if got, want := n.acquaintances(), []uint64{2, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("it is acquainted with %v, want %v", got, want)
	}
	links.peers = nil
	now := rosterOf([]uint64{1, 2, 7}, 8, 9)
	now.Members[2].PeerURLs = []string{"http://moved:7"}
	n.is(now)
	n.meet(nil)
	want := notedPeers{map[machine.NodeID]string{2: "m:2", 7: "moved:7"}, []machine.NodeID{8, 9}}
	if !reflect.DeepEqual(links.peers, []notedPeers{want}) {
		t.Errorf("when the log knows better connections are made to %v, want %v", links.peers, want)
	}
	if len(n.contacts.heard) > 0 {
		t.Errorf("it still goes by what it has heard: %v", n.contacts.heard)
	}
	n.meet([]founder{{5, "http://m:5"}})
	n.meet([]founder{{5, "http://moved:5"}})
	if got := n.contacts.heard[5]; got != "moved:5" {
		t.Errorf("of one that moved it has heard at last that it is at %q", got)
	}
	for id := uint64(100); len(n.contacts.heard) < heardMax; id++ {
		n.meet([]founder{{id, fmt.Sprintf("http://m:%d", id)}})
	}
	n.meet([]founder{{99, "http://m:99"}, {5, "http://again:5"}})
	if heard := n.contacts.heard; len(heard) != heardMax || heard[99] != "" || heard[5] != "again:5" {
		t.Errorf("it has heard of %d members, %d may be; of one more at %q, and of one that moved at %q", len(heard), heardMax, heard[99], heard[5])
	}
	var log strings.Builder
	n.logger = slog.New(slog.NewTextHandler(&log, nil))
	links.err = peer.ErrClosed
	if n.meet(nil); log.Len() > 0 {
		t.Errorf("when it stops the log says %s", log.String())
	}
	links.err = errors.New("no such thing")
	if n.meet(nil); !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "no such thing") {
		t.Errorf("when connections cannot be made the log says %q", log.String())
	}
}

// A member without a leader asks others once in an election timeout, at the addresses of its log and
// at those that its operator gives.
func TestWhoIsAskedWithoutALeader(t *testing.T) {
	for _, existing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n, _, links := linked(t)
			defer n.end()
			n.cfg.Existing = existing
			n.cfg.Peers = map[string]string{"a": "http://m:1", "old": "http://old:1", "two": "http://m:2", "bad": "nowhere"}
			n.is(rosterOf([]uint64{1, 2, 3}))
			n.contacts.heard = map[machine.NodeID]string{7: "m:7"}
			var mu sync.Mutex
			var dialed []string
			held := make(chan struct{})
			hold := false
			n.cfg.Dial = func(_ context.Context, addr string) (net.Conn, error) {
				mu.Lock()
				dialed = append(dialed, addr)
				waits := hold
				mu.Unlock()
				if waits {
					<-held
				}
				return nil, errors.New("nobody answers")
			}
			began := time.Now()
			look := func(when string, after time.Duration, want ...string) {
				t.Helper()
				n.lookAround(began.Add(after))
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if slices.Sort(dialed); !slices.Equal(dialed, want) {
					t.Errorf("existing: %v: %s it asks at %v, want %v", existing, when, dialed, want)
				}
				dialed = nil
			}
			all := []string{"m:2", "m:3"}
			if existing {
				all = append(all, "old:1")
			}
			n.leadership.Store(&leadership{at: time.Now()})
			look("when it has just lost its leader", 0)
			time.Sleep(n.cfg.ElectionTimeout - 1)
			look("before an election timeout is over", n.cfg.ElectionTimeout-1)
			time.Sleep(time.Nanosecond)
			look("an election timeout later", n.cfg.ElectionTimeout, all...)
			look("just after", 2*n.cfg.ElectionTimeout-1)
			look("another election timeout later", 2*n.cfg.ElectionTimeout, all...)
			hold = true
			n.lookAround(began.Add(3 * n.cfg.ElectionTimeout)) // it waits for the first
			synctest.Wait()
			mu.Lock()
			dialed = nil
			mu.Unlock()
			look("while it still asks", 9*n.cfg.ElectionTimeout)
			hold = false
			close(held)
			synctest.Wait()
			mu.Lock()
			dialed = nil
			mu.Unlock()
			look("when all have been asked", 10*n.cfg.ElectionTimeout, all...)
			n.leadership.Store(&leadership{leader: 2})
			for _, tt := range []struct {
				after time.Duration
				turn  int
				peers int // how often it is connected anew
			}{{12 * n.cfg.ElectionTimeout, 4, 0}, {12*n.cfg.ElectionTimeout + 1, 0, 1}, {20 * n.cfg.ElectionTimeout, 0, 0}} {
				links.peers = nil
				look("with a leader", tt.after)
				if n.contacts.turn != tt.turn || len(links.peers) != tt.peers {
					t.Errorf("existing: %v: it has had a leader for %v since it asked last: it is at turn %d and was connected anew %d times, want turn %d and %d times", existing, tt.after-10*n.cfg.ElectionTimeout, n.contacts.turn, len(links.peers), tt.turn, tt.peers)
				}
			}
		})
	}
}

// At its start a member connects to the members of its log, at the addresses there, and to those that
// it heard of when it joined.
func TestWhomAMemberIsConnectedToAtFirst(t *testing.T) {
	n, _, _ := linked(t)
	n.cfg.PeerListener = listen(t)
	n.is(rosterOf([]uint64{1, 2, 3}))
	heard := map[machine.NodeID]string{3: "old:3", 7: "m:7"}
	n.contacts.heard = maps.Clone(heard)
	dialed := make(chan string, 100)
	n.cfg.Dial = func(_ context.Context, addr string) (net.Conn, error) {
		select {
		case dialed <- addr:
		default:
		}
		return nil, errors.New("nobody answers")
	}
	if err := n.connect(); err != nil {
		t.Fatal(err)
	}
	defer n.peers.Close()
	got := map[string]bool{}
	for late := time.After(20 * time.Second); len(got) < 3; {
		select {
		case addr := <-dialed:
			got[addr] = true
		case <-late:
			t.Fatalf("in 20 s it dials %v", got)
		}
	}
	if want := map[string]bool{"m:2": true, "m:3": true, "m:7": true}; !maps.Equal(got, want) {
		t.Errorf("it dials %v, want %v", got, want)
	}
	if !maps.Equal(n.contacts.members, addressesOf(2, 3)) || !maps.Equal(n.contacts.heard, heard) {
		t.Errorf("it knows %v by its log and %v by hearsay, want %v and %v", n.contacts.members, n.contacts.heard, addressesOf(2, 3), heard)
	}
}
