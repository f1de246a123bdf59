package flease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestHowListsAreFollowed: the next list is compared with the last that was taken. The same trouble is logged
// once, and the Membership is called again a second later. A list that waits is not logged.
func TestHowListsAreFollowed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		list := func(epoch uint64) Members { return Members{Epoch: epoch, Addrs: map[machine.NodeID]string{1: "a:1"}} }
		var log strings.Builder
		p := &Peer{self: 1, members: list(2), cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		p.ctx, p.cancel = context.WithCancelCause(context.Background())
		p.activeEpoch.Store(1) // so that the next list waits
		steps := []struct {
			known uint64 // the epoch that it is compared with
			says  Members
			err   error
			pause time.Duration // until the Membership is called again
			logs  string        // "" for nothing
		}{
			{2, Members{}, errors.New("no file"), time.Second, "no file"},
			{2, Members{}, errors.New("no file"), time.Second, ""},
			{2, Members{}, errors.New("no line"), time.Second, "no line"},
			{2, Members{}, errors.New("no file"), time.Second, "no file"},
			{2, list(5), nil, time.Second, "write epoch 3"},
			{2, list(5), nil, time.Second, ""},
			{2, list(3), nil, 0, ""},
			{3, list(4), nil, time.Second, ""},
			{3, list(5), nil, time.Second, "write epoch 3"},
			{3, list(3), nil, 0, ""},
			{3, list(5), nil, time.Second, "write epoch 3"},
		}
		asked := 0
		began := time.Now()
		p.cfg.Membership = func(ctx context.Context, known Members) (Members, error) {
			if asked > 0 {
				before := steps[asked-1]
				if took := time.Since(began); took != before.pause {
					t.Errorf("step %d: the next list is asked for %v later, want %v", asked-1, took, before.pause)
				}
				if said := log.String(); said == "" != (before.logs == "") || !strings.Contains(said, before.logs) {
					t.Errorf("step %d: the log says %q, want %q", asked-1, said, before.logs)
				}
			}
			if asked == len(steps) {
				p.cancel(nil)
				return known, ctx.Err()
			}
			log.Reset()
			began = time.Now()
			s := steps[asked]
			if asked++; known.Epoch != s.known {
				t.Errorf("step %d: lists are compared with that of epoch %d, want %d", asked-1, known.Epoch, s.known)
			}
			return s.says, s.err
		}
		p.followMembers()
		if p.members.Epoch != 2 || p.later.Epoch != 3 {
			t.Errorf("the list of epoch %d counts and that of %d waits, want 2 and 3", p.members.Epoch, p.later.Epoch)
		}
	})
}

// changes is a machine that records changes of views.
type changes struct {
	scripted
	views []flease.View
}

func (m *changes) Step(now machine.Now, input flease.Input) {
	if c, ok := input.(flease.ChangeView); ok {
		m.views = append(m.views, c.View)
	}
	m.scripted.Step(now, input)
}

// TestTheNextListComes: a list comes once, when the one before it is active. The peer has streams to the members of
// both until the list is active, and then to its own.
func TestTheNextListComes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	self := l.Addr().String()
	first := Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: self, 2: "b:1"}}
	second := Members{Epoch: 2, Addrs: map[machine.NodeID]string{1: self, 3: "c:1"}, Was: map[machine.NodeID]string{1: self, 2: "b:1"}}
	third := Members{Epoch: 3, Addrs: map[machine.NodeID]string{1: self, 4: "d:1"}}
	var mu sync.Mutex
	dialed := map[string]int{}
	p := &Peer{cfg: Config{Self: self, Replicas: 2, Clock: new(clock.Fake), Wall: time.Now, Logger: slog.New(slog.DiscardHandler)}, self: 1, members: first}
	p.ctx, p.cancel = context.WithCancelCause(t.Context())
	m := &changes{}
	p.startOver(t, m)
	defer p.driver.Stop()
	p.transport, err = peer.New(peer.Config{
		Self: 1, ClusterID: 1, Listener: l, Peers: first.Addrs, FrameBytesMax: 1 << 20, QueueBytes: 1 << 20, Logger: p.cfg.Logger,
		Deliver: func(machine.NodeID, [][]byte) {},
		Dial: func(_ context.Context, addr string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialed[addr]++
			return nil, errors.New("nobody is there")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.transport.Close()
	views := func() (all []flease.View) {
		p.driver.Do(func() { all = slices.Clone(m.views) })
		return all
	}
	speaks := func(when string, to ...string) {
		t.Helper()
		for _, addr := range to {
			mu.Lock()
			before := dialed[addr]
			mu.Unlock()
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				mu.Lock()
				again := dialed[addr] > before
				mu.Unlock()
				if again {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%s nobody speaks to %s", when, addr)
				}
			}
		}
	}
	p.later = second
	p.advance()
	if got := views(); len(got) > 0 || p.members.Epoch != 1 || p.later.Epoch != 2 {
		t.Errorf("the view before is not active, and the machine hears of %v", got)
	}
	p.activeEpoch.Store(1)
	p.advance()
	if got := views(); !reflect.DeepEqual(got, []flease.View{second.view(2)}) || p.members.Epoch != 2 || p.later.Epoch != 0 {
		t.Errorf("the view before is active, and the machine hears of %v; the list of %d counts, and that of %d waits", got, p.members.Epoch, p.later.Epoch)
	}
	for range 2 { // when it is dialed again, the transport has noted how the first time ended
		speaks("in the change", "b:1", "c:1")
	}
	p.advance()
	if got := views(); len(got) != 1 {
		t.Fatalf("nothing waits, and the machine hears of %v", got)
	}
	if err := p.offer(third); err != nil {
		t.Fatalf("behind one change the next is not taken: %v", err)
	}
	p.activeEpoch.Store(2)
	p.active(second.view(2))
	if got := views(); len(got) != 2 || !reflect.DeepEqual(got[1], third.view(2)) || p.members.Epoch != 3 {
		t.Errorf("the view is active, and the one that waits does not come: %v", got)
	}
	if p.transport.Stats(3) == (peer.Stats{}) {
		t.Fatal("in the next change nobody speaks to peer 3, which the view that is left needs")
	}
	speaks("in the next change", "c:1", "d:1")
	p.activeEpoch.Store(3)
	p.active(third.view(2))
	speaks("when it is active", "d:1")
	for id := machine.NodeID(2); id < 4; id++ {
		if p.transport.Stats(id) != (peer.Stats{}) {
			t.Errorf("a peer speaks to %d, which is no member any more", id)
		}
	}
	p.active(flease.View{Epoch: 4, Members: []machine.NodeID{4}})
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("peer 1 (%s) is no member any more since epoch 4", self)) {
		t.Errorf("it is no member any more, and ends with %v", err)
	}
}
