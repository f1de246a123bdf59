package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/replica"
)

// brokenClocks are this machine's, but for what somebody adds to them: to all, and to the
// time of day alone.
type brokenClocks struct{ all, wall atomic.Int64 }

func (b *brokenClocks) look() clock.Evidence {
	all, wall := b.all.Load(), b.wall.Load() // once: a look sees one moment
	e := clock.Look()
	e.Now, e.Running, e.Raw = e.Now+machine.Mono(all), e.Running+time.Duration(all), e.Raw+time.Duration(all)
	e.Wall += machine.Wall(all + wall)
	return e
}

func (b *brokenClocks) now() machine.Now {
	e := b.look()
	return machine.Now{Mono: e.Now, Wall: e.Wall}
}

// TestClockInDoubt sets the time of day at a member that has a lease, as happens to a
// virtual machine that was frozen: it has none until the clock was right for a while.
func TestClockInDoubt(t *testing.T) {
	var broken brokenClocks
	c := newCluster(t, 3, func(cfg *Config) {
		cfg.ReadLease, cfg.ReadLeaseTTL = "all", 5*time.Second
		if cfg.Name == "m2" {
			cfg.Now, cfg.Look = broken.now, broken.look
		}
	})
	n := c.nodes[2]
	c.leader()
	c.leases(2, true)
	if r, doubted := n.Clock(); doubted || r.Doubts > 0 {
		t.Fatalf("in doubt without a reason: %+v", r)
	}

	broken.all.Add(int64(3 * time.Second))
	c.until("it knows that it stood still", func() bool { r, _ := n.Clock(); return r.Pauses > 0 })
	if r, doubted := n.Clock(); doubted || r.Doubts > 0 {
		t.Errorf("it stood still and its clock went on: %+v, want no doubt", r)
	}
	c.leases(2, true)

	for _, by := range []time.Duration{time.Minute, -time.Second} {
		before, _ := n.Clock()
		broken.wall.Add(int64(by))
		c.until("it is in doubt", func() bool {
			r, _ := n.Clock()
			return r.Doubts > before.Doubts
		})
		for {
			_, leased := n.reads.leased()
			if _, doubted := n.Clock(); !doubted {
				break
			}
			if leased {
				t.Fatalf("it has a lease, though its clock is in doubt")
			}
			time.Sleep(time.Millisecond)
		}
		if r, _ := n.Clock(); !strings.Contains(r.Last, "time of day") {
			t.Errorf("it says %q of a clock that was set", r.Last)
		}
		c.leases(2, true)
	}
}

// TestLeaseBeforeItWasPublished: a clock that went back gives nobody a lease again.
func TestLeaseBeforeItWasPublished(t *testing.T) {
	var now machine.Mono
	rs := reads{clock: func() machine.Mono { return now }}
	rs.lease.Store(&readLease{replica.ReadLease{Until: 200, Index: 7}, 100})
	for at, want := range map[machine.Mono]bool{99: false, 100: true, 199: true, 200: false} {
		now = at
		if _, ok := rs.leased(); ok != want {
			t.Errorf("leased at %d: %v, want %v, by a lease from 100 to 200", at, ok, want)
		}
	}
}
