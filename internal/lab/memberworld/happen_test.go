package memberworld

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// staged has a world of hosts whose members are not there, for tests of the hosts' faults. Their
// names are m0 to m2, and m3 is a spare.
func staged(t *testing.T, do func(t *testing.T, c *cluster)) {
	t.Helper()
	world.Play(t, world.Options{Seed: 1, Memory: true}, func(w *world.World) {
		c := newCluster(w, Spec{Members: 3, Spares: 1, Storm: time.Minute, Upgraded: true})
		for _, h := range c.hosts {
			h.life = &life{p: w.Start(h.name), ended: make(chan struct{})}
			h.flags.older = false
		}
		do(w.T(), c)
	})
}

// endings are how the lives of hosts have ended, "" if they have not.
func endings(c *cluster) (list []string) {
	names := map[ending]string{exits: "exits", crashes: "crashes", ages: "ages", empties: "empties"}
	for _, h := range c.hosts {
		select {
		case <-h.life.ended:
			list = append(list, names[h.life.how])
		default:
			list = append(list, "")
		}
	}
	return list
}

// reach tells from where to where a connection can be made: each of m0 to m2, and the client c.
func reach(t *testing.T, c *cluster) (ways []string) {
	t.Helper()
	names := []string{"m0", "m1", "m2", "c"}
	if c.w.Process("c") == nil {
		c.w.Start("c")
	}
	for _, from := range names {
		for _, to := range names[:3] {
			if from == to {
				continue
			}
			l, err := c.net.Listen(c.w.Process(to), 1)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			if conn, err := c.net.Dialer(c.w.Process(from))(ctx, to+":1"); err == nil {
				conn.Close()
				ways = append(ways, from+to)
			}
			cancel()
			l.Close()
		}
	}
	return ways
}

// Each fault of a plan hits the hosts that it names, in the way that it names.
func TestFaultsHappen(t *testing.T) {
	for _, tt := range []struct {
		f    world.Fault
		want []string
	}{
		{world.Fault{Kind: world.Kill, Who: "m1"}, []string{"", "exits", "", ""}},
		{world.Fault{Kind: world.Crash, Who: "m1"}, []string{"", "crashes", "", ""}},
		{world.Fault{Kind: world.Crash, Who: "m1", With: everywhere}, []string{"crashes", "crashes", "crashes", "crashes"}},
		{world.Fault{Kind: world.Restart, Who: "m2"}, []string{"", "", "exits", ""}},
		{world.Fault{Kind: world.Older, Who: "m0", For: time.Second}, []string{"ages", "", "", ""}},
		{world.Fault{Kind: world.Empty, Who: "m2"}, []string{"", "", "empties", ""}},
		{world.Fault{Kind: world.ClockJump, Who: "m1", With: "1h"}, []string{"", "", "", ""}},
	} {
		staged(t, func(t *testing.T, c *cluster) {
			for _, h := range c.hosts[:3] {
				h.admitted.Store(true)
			}
			c.happen(tt.f)
			if got := endings(c); !slices.Equal(got, tt.want) {
				t.Errorf("%v: lives end by %q, want %q", tt.f, got, tt.want)
			}
			lost := tt.f.Kind == world.Older || tt.f.Kind == world.Empty
			if h := c.host(tt.f.Who); h.isLost() != lost {
				t.Errorf("%v: its data counts as lost: %v, want %v", tt.f, h.isLost(), lost)
			}
		})
	}
	staged(t, func(t *testing.T, c *cluster) {
		h := c.host("m2")
		h.flags = flags{older: true, order: "nonsense"}
		c.happen(world.Fault{Kind: world.Restart, Who: "m2"})
		if h.flags.older || h.flags.order == "nonsense" || h.flags.readTTL == 0 || c.w.Counter("upgrades") != 1 {
			t.Errorf("restarted with %+v, upgrades %d; want other flags and the newest version", h.flags, c.w.Counter("upgrades"))
		}
		for _, what := range []string{"add", "replace"} {
			c.happen(world.Fault{Kind: world.Member, Who: "m3", With: what})
			if j := <-c.jobs; j.what != what || j.h.name != "m3" {
				t.Errorf("the operator is to %s %s, want to %s m3", j.what, j.h.name, what)
			}
		}
		if busy := c.busy.Load(); busy != 2 {
			t.Errorf("%d jobs are to be done, want 2", busy)
		}
	})
}

// Ways are cut as a fault says, for as long as it says.
func TestCutsHappen(t *testing.T) {
	all := []string{"m0m1", "m0m2", "m1m0", "m1m2", "m2m0", "m2m1", "cm0", "cm1", "cm2"}
	for _, tt := range []struct {
		f     world.Fault
		wants []string // ways that are cut
	}{
		{world.Fault{Kind: world.Cut, Who: "m0", With: "m2"}, []string{"m0m2", "m2m0"}}, // answers do not come either
		{world.Fault{Kind: world.Isolate, Who: "m1"}, []string{"m0m1", "m1m0", "m1m2", "m2m1", "cm1"}},
		{world.Fault{Kind: world.Isolate, Who: "m1", With: fromMembers}, []string{"m0m1", "m1m0", "m1m2", "m2m1"}},
	} {
		staged(t, func(t *testing.T, c *cluster) {
			tt.f.For = time.Minute
			began := c.w.Elapsed()
			c.happen(tt.f)
			want := slices.DeleteFunc(slices.Clone(all), func(way string) bool { return slices.Contains(tt.wants, way) })
			if got := reach(t, c); !slices.Equal(got, want) {
				t.Errorf("%v: connections can be made on the ways %v, want %v", tt.f, got, want)
			}
			time.Sleep(tt.f.For - (c.w.Elapsed() - began) + time.Second)
			if got := reach(t, c); !slices.Equal(got, all) {
				t.Errorf("%v: afterwards on the ways %v, want %v", tt.f, got, all)
			}
		})
	}
}

// Clocks of a host go wrong as a fault says, and are right again afterwards.
func TestClockFaultsHappen(t *testing.T) {
	for _, tt := range []struct {
		f          world.Fault
		mono, wall time.Duration // how far they went in the first ten seconds
		ends       time.Duration // how far the time of day is ahead a minute later
	}{
		{world.Fault{Kind: world.ClockJump, With: "-30m"}, 10 * time.Second, 10*time.Second - 30*time.Minute, -30 * time.Minute},
		{world.Fault{Kind: world.ClockRate, With: "1.5", For: 20 * time.Second}, 15 * time.Second, 15 * time.Second, 10 * time.Second},
		{world.Fault{Kind: world.ClockRate, With: "0.5", For: 6 * time.Second}, 7 * time.Second, 7 * time.Second, -3 * time.Second},
		{world.Fault{Kind: world.ClockHalt, For: 20 * time.Second}, 0, 0, time.Second},
	} {
		staged(t, func(t *testing.T, c *cluster) {
			h, other := c.host("m1"), c.host("m2")
			tt.f.Who = "m1"
			mono, wall := h.mono.Now(), h.wall.Now()
			apart := other.mono.Now()
			go c.happen(tt.f)
			time.Sleep(10 * time.Second)
			if m, w := h.mono.Now().Sub(mono), h.wall.Now().Sub(wall); m != tt.mono || w != tt.wall {
				t.Errorf("%v: in 10 s its clock went %v and the time of day %v, want %v and %v", tt.f, m, w, tt.mono, tt.wall)
			}
			time.Sleep(50 * time.Second)
			now := h.mono.Now()
			if w := h.wall.Now().Sub(wall); w != time.Minute+tt.ends {
				t.Errorf("%v: in a minute the time of day went %v, want %v", tt.f, w, time.Minute+tt.ends)
			}
			time.Sleep(10 * time.Second)
			if m := h.mono.Now().Sub(now); m != 10*time.Second {
				t.Errorf("%v: afterwards its clock goes %v in 10 s", tt.f, m)
			}
			if m := other.mono.Now().Sub(apart); m != 70*time.Second {
				t.Errorf("%v: another host's clock went %v in 70 s", tt.f, m)
			}
		})
	}
}

// A disk is lost even if that befalls a host that is down. A later end of what does not run gives nothing back.
func TestADiskIsLostWhileNothingRuns(t *testing.T) {
	for _, how := range []ending{ages, empties} {
		staged(t, func(t *testing.T, c *cluster) {
			h := c.hosts[1]
			h.end(nil, crashes)
			h.end(nil, how)
			if h.end(nil, exits); h.befell != how || h.life.how != crashes {
				t.Errorf("a host that was down has ended by %d, and %d befell its disk, want %d", h.life.how, h.befell, how)
			}
		})
	}
}

// Data is lost only when a cluster is made for that: when all founders take part, no member is
// being replaced, and no other member has lost its own.
func TestDataIsLostWhenThatIsAllowed(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(c *cluster)
		want bool
	}{
		{"all is well", func(*cluster) {}, true},
		{"a founder has not begun", func(c *cluster) { c.hosts[2].admitted.Store(false) }, false},
		{"the operator is busy", func(c *cluster) { c.busy.Add(1) }, false},
		{"another has lost its data", func(c *cluster) { c.hosts[0].lost = true }, false},
		{"the spare has not begun", func(c *cluster) { c.hosts[3].admitted.Store(false) }, true},
	} {
		staged(t, func(t *testing.T, c *cluster) {
			for _, h := range c.hosts {
				h.admitted.Store(true)
			}
			tt.set(c)
			began := c.w.Elapsed()
			if got := c.mayLose(c.hosts[1]); got != tt.want || c.hosts[1].isLost() != tt.want {
				t.Errorf("%s: data may be lost: %v, and counts as lost: %v, want %v", tt.name, got, c.hosts[1].isLost(), tt.want)
			}
			waited := c.w.Elapsed() - began
			if tt.want && waited > 0 || !tt.want && waited < c.spec.Storm-2*time.Second {
				t.Errorf("%s: it was decided after %v", tt.name, waited)
			}
			if n := c.w.Counter("data not lost, for it would have been too much"); (n == 0) != tt.want {
				t.Errorf("%s: counted %d times as too much", tt.name, n)
			}
		})
	}
}
