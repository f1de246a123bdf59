package flease

import (
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A quarantine is over when both clocks have come far enough.
func TestAQuarantineIsOverByBothClocks(t *testing.T) {
	for _, slow := range []string{"neither", "mono", "wall"} {
		p, err := New(testConfig(1, 3))
		if err != nil {
			t.Fatal(err)
		}
		now := machine.Now{Mono: 1e12, Wall: machine.Wall(1767225600 * int64(time.Second))}
		p.Wake(now)
		step := p.quarantine / 10
		for range 10 {
			now.Mono, now.Wall = now.Mono.Add(step), now.Wall+machine.Wall(step)
			switch slow { // by less than what is taken for a jump
			case "mono":
				now.Mono = now.Mono.Add(-step / 1000)
			case "wall":
				now.Wall -= machine.Wall(step / 1000)
			}
			p.Wake(now)
		}
		if p.silent() != (slow != "neither") {
			t.Errorf("when a quarantine is over by all clocks but %s, which was slow, the peer is silent: %v", slow, p.silent())
		}
		now.Mono, now.Wall = now.Mono.Add(step), now.Wall+machine.Wall(step)
		if p.Wake(now); p.silent() {
			t.Errorf("when a quarantine is over by all clocks, %s of which was slow, the peer is silent", slow)
		}
	}
}

// A clock is at fault if it moves apart from the other between two steps, forwards or
// backwards, by more than ε/4 and the effect of slewing in that time. By that much it is
// not.
func TestHowFarClocksMayMoveApart(t *testing.T) {
	for _, tt := range []struct {
		passes, apart time.Duration
	}{{time.Millisecond, 25*time.Millisecond + 2*time.Microsecond}, {time.Second, 27 * time.Millisecond}, {10 * time.Second, 45 * time.Millisecond}, {time.Hour, 45 * time.Millisecond}} {
		for _, sign := range []time.Duration{1, -1} {
			for beyond := range time.Duration(2) {
				c := newCluster(t, 3, nil)
				p := c.peers[1]
				p.Ready()
				c.now.Mono = c.now.Mono.Add(tt.passes)
				c.now.Wall += machine.Wall(tt.passes + sign*(tt.apart+beyond))
				_, out := c.ask(1, labstage.Wake{})
				jumps := len(out) > 0 && out[0].(Alarm).Kind == Jump
				if jumps != (beyond > 0) || p.silent() != jumps {
					t.Errorf("in %v the clocks have moved apart by %v: that is a fault %v, want %v", tt.passes, sign*(tt.apart+beyond), jumps, beyond > 0)
				}
				if by := sign * (tt.apart + beyond); jumps && out[0].(Alarm).By != by {
					t.Errorf("clocks that moved apart by %v are said to have done so by %v", by, out[0].(Alarm).By)
				}
			}
		}
	}
}

// A silent peer looks at the clocks again when both would have come far enough, and a millisecond later
// at the earliest.
func TestWhenAQuarantineIsLookedAt(t *testing.T) {
	const ms = machine.Mono(time.Millisecond)
	for _, tt := range []struct {
		mono machine.Mono // behind now, as wall is
		wall Time
		next machine.Mono // so, too
	}{{500 * ms, 300, 500 * ms}, {300 * ms, 500, 500 * ms}, {-5 * ms, 2, 2 * ms}, {3 * ms, -500, 3 * ms}, {-5 * ms, -5, ms}, {0, 0, ms}} {
		now := machine.Now{Mono: 1e12, Wall: machine.Wall(1767225600 * int64(time.Second))}
		s := silence{mono: now.Mono + tt.mono, wall: TimeOf(now.Wall) + tt.wall}
		if got := s.next(now) - now.Mono; got != tt.next {
			t.Errorf("a quarantine lasts for %v by one clock and %d ms by the other, and is looked at in %v, want %v", time.Duration(tt.mono), tt.wall, time.Duration(got), time.Duration(tt.next))
		}
	}
}
