package node

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// brokenClocks are this machine's clocks plus offsets that a test sets: one for all clocks, and one
// for the time of day alone.
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

// TestClockInDoubt changes the time of day at a member that has a lease, as happens to a virtual
// machine that was frozen. The member has no lease until the clock was right for a while.
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

// TestLeaseBeforeItWasPublished: a clock that goes back does not bring back a lease.
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

// TestDoubtComesBeforeWhatIsReady: a clock may be read again in a turn, after the last step of the
// replica. The replica is informed of an irregularity before it decides what to publish. Otherwise a
// lease would be taken from readers and given back at once.
func TestDoubtComesBeforeWhatIsReady(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	n.driver.Do(func() {
		n.clocks.note(clock.Oddity{Kind: clock.Set}, 0, 1)
		watched{n.replica, &n.clocks}.Ready() // it ends when this test does, and sends nothing
		if n.clocks.doubt.Until != 0 {
			t.Error("the replica has said what to publish, and was not told that its clock is in doubt")
		}
	})
}

// TestDoubtsAboutAClock: a doubt ends both kinds of leases at once. The replica is informed since when
// the clock may have been wrong, however often the clock is checked before. The doubt is logged once.
func TestDoubtsAboutAClock(t *testing.T) {
	var log strings.Builder
	n := &Node{logger: slog.New(slog.NewTextHandler(&log, nil))}
	second := machine.Mono(time.Second)
	n.reads.clock = func() machine.Mono { return 3 * second }
	n.reads.lease.Store(&readLease{replica.ReadLease{Until: 9 * second}, 1})
	n.reads.keys.Store(&keyLease{&replica.KeyLease{Until: 9 * second}, 1})
	c := &n.clocks
	c.n = n
	note := func(kind clock.Kind, since, now machine.Mono) { c.note(clock.Oddity{Kind: kind}, since, now) }
	note(clock.Paused, second, 2*second)
	if _, leased := n.reads.leased(); !leased || n.keyLease() == nil || c.doubt.Until != 0 {
		t.Errorf("a member that stood still has a lease: %v, and %v of keys, and doubts until %v; want its leases, and no doubt", leased, n.keyLease() != nil, c.doubt.Until)
	}
	note(clock.Fast, 2*second, 3*second)
	if _, leased := n.reads.leased(); leased || n.keyLease() != nil {
		t.Errorf("with its clock in doubt a member has a lease: %v, and of keys: %v", leased, n.keyLease() != nil)
	}
	note(clock.Fast, 3*second, 3*second+1)
	if want := (replica.Doubted{Since: 2 * second, Until: 4*second + 1}); c.doubt != want {
		t.Errorf("the replica is told %+v, want %+v", c.doubt, want)
	}
	if r, doubted := n.Clock(); !doubted || r.Pauses != 1 || r.Doubts != 2 {
		t.Errorf("one pause and two doubts, the last just now: got %+v, in doubt: %v", r, doubted)
	}
	if k := strings.Count(log.String(), "cannot be trusted"); k != 1 {
		t.Errorf("the log has a doubt that goes on %d times, want once", k)
	}
}

// A doubt about a clock begins at the last check that found it right, and lasts for a while after the
// check that did not.
func TestSinceWhenAClockIsInDoubt(t *testing.T) {
	const ms = machine.Mono(time.Millisecond)
	var mono, off machine.Mono // the time of day is off by so much
	n := &Node{logger: slog.New(slog.DiscardHandler)}
	n.reads.clock = func() machine.Mono { return mono }
	c := &n.clocks
	c.n = n
	c.now = func() machine.Now { return machine.Now{Mono: mono, Wall: machine.Wall(mono + off)} }
	c.look = func() clock.Evidence { // a little later than the turn
		return clock.Evidence{Now: mono + 1, Wall: machine.Wall(mono + 1 + off), Running: time.Duration(mono + 1), Raw: time.Duration(mono + 1)}
	}
	c.judge = clock.Judge{}
	var right machine.Mono // the look before, by which it was
	for range 400 {
		mono += 10 * ms
		if mono > 2000*ms {
			off += 100 * ms // the time of day runs away
		}
		before := c.judge.Since()
		if c.read(); c.doubt.Until != 0 {
			right = before
			break
		}
	}
	if c.doubt.Until == 0 {
		t.Fatal("a clock that another runs away from is not in doubt")
	}
	if want := (replica.Doubted{Since: right, Until: (mono + 1).Add(hesitation)}); c.doubt != want {
		t.Errorf("it is in doubt %+v, want %+v", c.doubt, want)
	}
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {hesitation, true}, {hesitation + 1, false}} {
		n.reads.clock = func() machine.Mono { return mono.Add(tt.after) }
		if _, doubted := n.Clock(); doubted != tt.want {
			t.Errorf("%v later it is in doubt: %v, want %v", tt.after, doubted, tt.want)
		}
	}
}
