package flease

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestHandoverReserves: the heir comes first though it has not asked yet, for two round
// timeouts; then anybody may come.
func TestHandoverReserves(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.do(1, Acquire{ID: 1, Name: "a"})
	c.do(1, Handover{ID: 1, To: 3})
	c.do(2, Acquire{ID: 2, Name: "a", Try: true})
	if r := last[Refused](c, 2); r.Err != nil || len(r.State.Holdings) != 0 {
		t.Fatalf("another comes before the heir: %+v", r)
	}
	c.do(3, Acquire{ID: 3, Name: "a", Try: true})
	if !has[Acquired](c, 3) {
		t.Fatalf("the heir is refused: %+v", c.out[3])
	}
	// The next heir is dead.
	c.do(3, Handover{ID: 3, To: 1})
	delete(c.peers, 1)
	c.pass(c.peers[2].cfg.RoundTimeout)
	c.do(2, Acquire{ID: 4, Name: "a", Try: true})
	if has[Acquired](c, 2) {
		t.Fatal("another comes before the heir, which has a round timeout left")
	}
	c.pass(c.peers[2].cfg.RoundTimeout + c.peers[2].cfg.RoundTimeout/10)
	c.do(2, Acquire{ID: 5, Name: "a", Try: true})
	if !has[Acquired](c, 2) {
		t.Errorf("it waits for a dead heir: %+v", c.out[2])
	}
}

// TestAnHeirsTime: the heir comes first for two round timeouts, and no longer than the lease would
// have lasted. A release without an heir leaves the end of the lease as it was.
func TestAnHeirsTime(t *testing.T) {
	c := newCluster(t, 1, nil)
	p := c.peers[1]
	two := millis(2 * p.cfg.RoundTimeout)
	for _, tt := range []struct {
		heir       uint16
		left, want Time
	}{{3, 5 * two, two}, {3, two / 2, two / 2}, {0, 5 * two, 5 * two}} {
		h := Holding{Until: p.c + tt.left}
		p.giveUp(&claim{heir: tt.heir}, &h)
		if !h.Released || h.Heir != tt.heir || h.Until != p.c+tt.want {
			t.Errorf("heir %d of a lease that has %v left comes first for %v, want %v: %+v", tt.heir, tt.left.duration(), (h.Until - p.c).duration(), tt.want.duration(), h)
		}
	}
}

// The heir is the peer that a released lease names, until that lease ends, whichever other leases there are.
func TestWhoIsTheHeir(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	held, gone := Holding{Until: p.c + 500, Owner: 2}, Holding{Until: p.c + 500, Owner: 2, Released: true}
	to3, to2, late := gone, gone, gone
	to3.Heir, to2.Heir, late.Heir, late.Until = 3, 2, 3, p.c
	odd := held
	odd.Heir = 3
	for name, tt := range map[string]struct {
		value Value
		heir  machine.NodeID
	}{
		"nobody holds":                       {nil, 0},
		"one holds":                          {Value{held}, 0},
		"one gave back":                      {Value{gone}, 0},
		"one gave it to 3":                   {Value{to3}, 3},
		"one holds, and one gave it to 3":    {Value{held, to3}, 3},
		"one gave back, and one gave it":     {Value{gone, to3, held}, 3},
		"two gave it":                        {Value{to2, to3}, 2},
		"one gave it, and its time is up":    {Value{late}, 0},
		"of two that gave it one is late":    {Value{late, to2}, 2},
		"one that has not given it back":     {Value{odd}, 0},
		"one that has not, and one that has": {Value{odd, to2}, 2},
	} {
		if got := p.heir(tt.value); got != tt.heir {
			t.Errorf("%s: the heir is %d, want %d", name, got, tt.heir)
		}
	}
}
