package flease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/world/disk"
	"github.com/tenure-lease/tenure/internal/machine"
)

// lists are the lists of members that hosts have, each its own.
type lists struct {
	mu sync.Mutex
	of map[machine.NodeID]engine.Members
}

// give has hosts read a list.
func (s *lists) give(m engine.Members, to ...machine.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range to {
		s.of[id] = m
	}
}

func (s *lists) membership(id machine.NodeID) engine.Membership {
	return func(ctx context.Context, known engine.Members) (engine.Members, error) {
		for {
			s.mu.Lock()
			m := s.of[id]
			s.mu.Unlock()
			if m.Epoch != known.Epoch {
				return m, nil
			}
			select {
			case <-ctx.Done():
				return known, context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// listOf is a list of hosts.
func listOf(epoch uint64, was *engine.Members, ids ...machine.NodeID) engine.Members {
	m := engine.Members{Epoch: epoch, Addrs: map[machine.NodeID]string{}}
	for _, id := range ids {
		m.Addrs[id] = fmt.Sprintf("h%d:7000", id)
	}
	if was != nil {
		m.Was = was.Addrs
	}
	return m
}

// inLists runs a test with three peers, whose hosts read lists of their own.
func inLists(t *testing.T, cfg engine.Config, f func(l *lab, s *lists, first engine.Members)) {
	inLab(t, 0, cfg, func(l *lab) {
		s, first := &lists{of: map[machine.NodeID]engine.Members{}}, listOf(1, nil, 1, 2, 3)
		s.give(first, 1, 2, 3)
		for range 3 {
			l.join(s, true)
		}
		time.Sleep(2 * time.Second)
		f(l, s, first)
	})
}

// join adds a host with a peer.
func (l *lab) join(s *lists, fresh bool) *labPeer {
	h := &labPeer{lab: l, id: machine.NodeID(len(l.peers) + 1), disk: disk.New(), mono: clock.NewSimulated(machine.Mono(time.Hour))}
	l.addrs[h.id] = fmt.Sprintf("h%d:7000", h.id)
	l.peers = append(l.peers, h)
	h.read(s, fresh)
	return h
}

// read starts a peer with the list that its host has.
func (h *labPeer) read(s *lists, fresh bool) {
	h.lab.t.Helper()
	cfg := h.config()
	cfg.Membership = s.membership(h.id)
	if fresh {
		cfg = engine.Fresh(cfg, nil)
	}
	h.run(cfg)
}

// spread passes a record on, which is later than all that others set.
func (h *labPeer) spread(record string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return h.Spread(ctx, "x", 1<<62, []byte(record))
}

// off cuts a host off from others.
func (l *lab) off(id machine.NodeID, d time.Duration, others ...machine.NodeID) {
	for _, o := range others {
		l.net.Cut(fmt.Sprintf("h%d", id), fmt.Sprintf("h%d", o), d)
		l.net.Cut(fmt.Sprintf("h%d", o), fmt.Sprintf("h%d", id), d)
	}
}

// TestListsReadAtDifferentTimes: a record that is acknowledged under a new list is not missed by those that have not
// read it. A newcomer counts when so many have read it that the others are no majority.
func TestListsReadAtDifferentTimes(t *testing.T) {
	inLists(t, brief, func(l *lab, s *lists, first engine.Members) {
		l.peers[0].setRecord("x", "old")
		second := listOf(2, &first, 2, 3, 4)
		s.give(second, 3, 4)
		newcomer := l.join(s, false)
		time.Sleep(time.Second)
		acknowledged := l.peers[2].spread("new", time.Second)
		got, err := l.peers[0].record("x", time.Second)
		if err != nil {
			t.Errorf("two of three have not read the new list yet, and go by the old one: %v", err)
		}
		if acknowledged == nil && got != "new" {
			t.Errorf("a record was acknowledged under the new list, and one that has not read it shows %q", got)
		}
		s.give(second, 2)
		if !newcomer.complete(10 * time.Second) {
			t.Fatal("the newcomer hears the records never")
		}
		if err := l.peers[2].spread("new", 10*time.Second); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{1, 2, 3} {
			if got, err := l.peers[i].record("x", 10*time.Second); got != "new" {
				t.Errorf("peer %d reads %q, %v", i+1, got, err)
			}
		}
	})
}

// TestBlankBesideAnotherList: under a new list a newcomer and a peer that has crashed do not begin anew while a majority goes
// by the list before, nor do peers with the list before while others have a newer one.
func TestBlankBesideAnotherList(t *testing.T) {
	t.Run("newer", func(t *testing.T) {
		inLists(t, brief, func(l *lab, s *lists, first engine.Members) {
			s.give(listOf(2, &first, 2, 3, 4), 3, 4)
			l.peers[2].kill()
			l.peers[2].read(s, false)
			l.join(s, false)
			if l.peers[2].complete(1500 * time.Millisecond) {
				t.Error("two begin anew under a new list, and two have the records under the list before")
			}
		})
	})
	t.Run("older", func(t *testing.T) {
		inLists(t, brief, func(l *lab, s *lists, first engine.Members) {
			s.give(listOf(2, &first, 2, 3, 4), 3)
			time.Sleep(500 * time.Millisecond)
			for _, h := range l.peers[:2] {
				h.kill()
			}
			for _, h := range l.peers[:2] {
				h.read(s, false)
			}
			if l.peers[0].complete(1500 * time.Millisecond) {
				t.Error("two begin anew under a list, and a third has a newer one")
			}
		})
	})
}

// TestVotesBeforeTheList: a peer that votes under a list that its host has not read shows no records under the one that it has:
// the next list may come, of which it knows nothing.
func TestVotesBeforeTheList(t *testing.T) {
	inLists(t, brief, func(l *lab, s *lists, first engine.Members) {
		l.peers[0].setRecord("x", "old")
		s.give(listOf(2, &first, 1, 2, 3, 4), 3, 4)
		l.join(s, false)
		for l.peers[0].Status().Active < 2 || l.peers[1].Status().Active < 2 {
			time.Sleep(time.Second)
		}
		if got, err := l.peers[0].record("x", time.Second); err == nil {
			t.Errorf("two peers vote under the second list, and have read the first alone: they show the record %q", got)
		}
	})
}

// TestListsThatWerePassed: if a host does not read a list, and then the one behind it, its peer has to hear what was acknowledged
// meanwhile.
func TestListsThatWerePassed(t *testing.T) {
	inLists(t, brief, func(l *lab, s *lists, first engine.Members) {
		second := listOf(2, &first, 1, 2, 3, 4)
		s.give(second, 2, 3, 4)
		late, newcomer := l.peers[0], l.join(s, false)
		for late.Status().Active < 2 || newcomer.Status().Incomplete {
			time.Sleep(time.Second)
		}
		if err := l.peers[1].spread("new", 5*time.Second); err != nil {
			t.Fatal(err)
		}
		l.off(1, 5*time.Second, 2, 3, 4)
		third := listOf(3, &second, 1, 2, 3)
		s.give(third, 1, 2, 3)
		time.Sleep(2 * time.Second)
		if st := late.Status(); st.Epoch != 3 || !st.Incomplete {
			t.Errorf("a peer in epoch %d has passed a list under which others have set records, and takes itself for complete: %v", st.Epoch, !st.Incomplete)
		}
		if !late.complete(20 * time.Second) {
			t.Error("a peer that has passed a list does not hear the records that were set under it")
		}
		if got, err := late.record("x", 5*time.Second); got != "new" {
			t.Errorf("it reads %q, %v", got, err)
		}
	})
}
