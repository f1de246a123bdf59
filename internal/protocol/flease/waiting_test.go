package flease

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestReadersDoNotOvertakeForEver: a writer waits, and new readers come before the last ones
// have left. They wait until the writer has had its turn.
func TestReadersDoNotOvertakeForEver(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "a", Slots: Shared})
	c.do(2, Acquire{ID: 2, Name: "a"}) // the writer
	c.do(3, Acquire{ID: 3, Name: "a", Slots: Shared})
	c.pass(2 * c.peers[1].cfg.TMax)
	if has[Acquired](c, 3) || has[Acquired](c, 2) {
		t.Fatal("a reader, or the writer, did not wait for its turn")
	}
	c.do(1, Release{ID: 1})
	if !has[Acquired](c, 2) || has[Acquired](c, 3) {
		t.Fatalf("the writer is not first: %+v, %+v", c.out[2], c.out[3])
	}
	c.do(2, Release{ID: 2})
	if !has[Acquired](c, 3) {
		t.Errorf("the reader has no turn: %+v", c.out[3])
	}
}

// TestCourtesyEnds: the first in the line could acquire, and does not, since no answer
// reaches it. Nobody waits for it longer than a few polls.
func TestCourtesyEnds(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "a"})
	c.do(2, Acquire{ID: 2, Name: "a"})
	c.do(3, Acquire{ID: 3, Name: "a"})
	c.cut = func(env machine.Envelope) bool { return env.To == 2 }
	c.do(1, Release{ID: 1})
	if has[Acquired](c, 3) {
		t.Fatal("it went past the first in the line at once")
	}
	p := c.peers[3]
	c.pass(6 * p.cfg.poll())
	if !has[Acquired](c, 3) || has[Acquired](c, 2) {
		t.Errorf("the next does not hold, or the first, whom no answer reaches, does: %+v, %+v", c.out[2], c.out[3])
	}
}

// TestTheLineIsInOrder: the waiter that came first is first, in whatever order acceptors
// heard of it.
func TestTheLineIsInOrder(t *testing.T) {
	c := newCluster(t, 5, func(cfg *Config) { cfg.View.Replicas = 5 })
	c.do(1, Acquire{ID: 1, Name: "a"})
	for _, id := range []machine.NodeID{4, 2, 5, 3} {
		c.cut = func(env machine.Envelope) bool { return env.From == 4 } // it is heard last
		c.do(id, Acquire{ID: uint64(id), Name: "a"})
		c.pass(time.Millisecond)
	}
	c.cut = nil
	c.pass(c.peers[1].cfg.TMax)
	holder := machine.NodeID(1)
	for _, next := range []machine.NodeID{4, 2, 5, 3} {
		c.do(holder, Release{ID: uint64(holder)})
		for id := range machine.NodeID(5) {
			if id+1 != holder && has[Acquired](c, id+1) != (id+1 == next) {
				t.Fatalf("peer %d acquires out of turn, or %d does not", id+1, next)
			}
		}
		c.out = map[machine.NodeID][]Report{}
		holder = next
	}
}

// TestWhoLeavesTheLine: nobody waits for a claim that was taken back.
func TestWhoLeavesTheLine(t *testing.T) {
	c := newCluster(t, 3, nil)
	for _, id := range []machine.NodeID{1, 2, 3} {
		c.do(id, Acquire{ID: 1, Name: "a"})
	}
	c.do(2, Release{ID: 1})
	c.do(1, Release{ID: 1})
	if !has[Acquired](c, 3) || has[Acquired](c, 2) {
		t.Errorf("the second has left, and the third does not hold: %+v", c.out[3])
	}
}

// TestOneMemberCallsItself: a claim of the only member is told by itself that its turn has come.
func TestOneMemberCallsItself(t *testing.T) {
	c := newCluster(t, 1, nil)
	c.do(1, Acquire{ID: 1, Name: "a"})
	c.do(1, Acquire{ID: 2, Name: "a"})
	c.do(1, Release{ID: 1})
	if got := last[Acquired](c, 1); got.ID != 2 {
		t.Errorf("the first has given it back, and the next does not hold: %+v", c.out[1])
	}
}

// TestWaitersTakeNoTurns: many claims that wait for peers that are gone keep no other from
// acquiring elsewhere.
func TestWaitersTakeNoTurns(t *testing.T) {
	c := newCluster(t, 6, func(cfg *Config) { cfg.MaxAttempts = 4; cfg.View.Replicas = 3 })
	v := c.peers[1].cfg.View
	gone, alive := "", ""
	for i := 0; gone == "" || alive == ""; i++ {
		name := fmt.Sprint(i)
		switch cell := v.Cell(name); {
		case cell[1] == 5 && cell[2] == 6:
			gone = name
		case cell[2] < 5:
			alive = name
		}
	}
	c.do(2, Acquire{ID: 1, Name: gone})
	for i := range uint64(40) {
		c.do(1, Acquire{ID: 100 + i, Name: gone})
	}
	delete(c.peers, 5)
	delete(c.peers, 6)
	// All have found a lease there, and now find nobody.
	c.pass(2 * c.peers[1].cfg.poll())
	for i := range uint64(10) {
		c.do(1, Acquire{ID: 200 + i, Name: alive})
		c.pass(20 * time.Millisecond)
		if got := last[Acquired](c, 1); got.ID != 200+i {
			t.Fatalf("claim %d has no turn", i)
		}
		c.do(1, Release{ID: 200 + i})
	}
}

// TestTriesAndLooksEnd: tries and looks are answered before long, for every reason of a
// refusal.
func TestTriesAndLooksEnd(t *testing.T) {
	both := func(c *cluster, want error) {
		t.Helper()
		c.out = map[machine.NodeID][]Report{}
		c.do(1, Acquire{ID: 1, Name: "a", Try: true})
		c.do(1, Observe{ID: 2, Name: "a"})
		for range 300 {
			c.pass(c.peers[1].cfg.RoundTimeout / 10)
		}
		if r := last[Refused](c, 1); !errors.Is(r.Err, want) {
			t.Errorf("refused with %v, want %v", r.Err, want)
		}
		if o := last[Observed](c, 1); !errors.Is(o.Err, want) {
			t.Errorf("observed with %v, want %v", o.Err, want)
		}
		if n := c.peers[1].Stats().Claims; n != 0 {
			t.Errorf("%d claims are left", n)
		}
	}
	t.Run("view-changes", func(t *testing.T) {
		c := newCluster(t, 3, nil)
		c.do(1, ChangeView{View: View{Epoch: 2, Members: []machine.NodeID{1, 2}}})
		both(c, ErrNoMajority)
	})
	t.Run("others-have-left", func(t *testing.T) {
		c := newCluster(t, 3, nil)
		c.cut = func(env machine.Envelope) bool { return env.To == 1 && env.Body.(*Batch).View != nil }
		c.do(2, ChangeView{View: View{Epoch: 2, Members: []machine.NodeID{2, 3}}})
		c.cut = func(env machine.Envelope) bool { env.Body.(*Batch).View = nil; return false }
		both(c, ErrNoMajority)
	})
	t.Run("clock-faults", func(t *testing.T) {
		c := newCluster(t, 3, nil)
		c.cut = func(machine.Envelope) bool { return true }
		c.do(1, Acquire{ID: 1, Name: "a", Try: true})
		c.do(1, Observe{ID: 2, Name: "a"})
		c.do(1, ClockFault{Why: "a test"})
		if r, o := last[Refused](c, 1), last[Observed](c, 1); r.Err != ErrQuarantine || o.Err != ErrQuarantine {
			t.Errorf("got %v and %v, want ErrQuarantine", r.Err, o.Err)
		}
		both(c, ErrQuarantine)
	})
}
