package memberworld

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A world's own settings of its members replace drawn ones.
func TestSpecsTakeThePlaceOfWhatIsDrawn(t *testing.T) {
	drawn := map[string]map[string]bool{}
	note := func(what string, v any) {
		if drawn[what] == nil {
			drawn[what] = map[string]bool{}
		}
		drawn[what][fmt.Sprint(v)] = true
	}
	r := world.Rand(1, "flags")
	said := Spec{Policy: "all/key", ReadTTL: 7 * time.Second, SnapshotBytes: 12345, Hurry: true}
	for range 200 {
		f := (&Spec{Policy: "off"}).flags(r)
		note("length of read leases", f.readTTL)
		note("log between snapshots", f.tailBytes)
		note("segments", f.segment)
		if f.order != "off" || f.older {
			t.Fatalf("drawn flags %+v", f)
		}
		if d := (&Spec{}).downtime(r); d < 0 || d > 8*time.Second {
			t.Fatalf("a host is down for %v", d)
		}
		if f := said.flags(r); f.readTTL != 7*time.Second || f.tailBytes != 12345 || f.order != "all/key" {
			t.Fatalf("a world that says what its members have gives them %+v", f)
		}
		if d := said.downtime(r); d != 20*time.Millisecond {
			t.Fatalf("in a hurry a host is down for %v", d)
		}
	}
	for what, values := range drawn {
		if len(values) != 3 {
			t.Errorf("%s: %v were drawn, want three", what, slices.Sorted(maps.Keys(values)))
		}
	}
}

// The flags of a host reach its member, and so do its disk, its clocks and the names of the others.
func TestFlagsReachTheMember(t *testing.T) {
	staged(t, func(t *testing.T, c *cluster) {
		h := c.host("m3") // the spare
		h.flags = flags{readTTL: 3 * time.Second, tailBytes: 4567, segment: 8901, order: "all", older: true}
		h.existing = true
		cfg := h.config(h.life).Node
		if cfg.ReadLeaseTTL != 3*time.Second || cfg.MaxTailBytes != 4567 || cfg.WAL.SegmentBytes != 8901 || cfg.ReadLease != "all" || !cfg.Older || !cfg.Existing {
			t.Errorf("of %+v the member is given %+v", h.flags, cfg)
		}
		want := map[string]string{"m0": "http://m0:2380", "m1": "http://m1:2380", "m2": "http://m2:2380", "m3": "http://m3:2380"}
		if !maps.Equal(cfg.Peers, want) || cfg.Name != "m3" {
			t.Errorf("%s is given the peers %v, want %v", cfg.Name, cfg.Peers, want)
		}
		if peers := c.host("m0").config(c.host("m0").life).Node.Peers; len(peers) != 3 || peers["m3"] != "" {
			t.Errorf("a member of the beginning is given the peers %v", peers)
		}
		h.mono.Jump(time.Hour)
		h.wall.Jump(time.Minute)
		if now := cfg.Now(); now.Mono != h.mono.Now() || now.Wall != machine.Wall(h.wall.Now()) {
			t.Errorf("its clocks show %+v, want %v and %v", now, h.mono.Now(), h.wall.Now())
		}
		if e := cfg.Look(); e.Now != h.mono.Now() || e.Running != time.Duration(h.mono.Now()) || e.Wall != machine.Wall(h.wall.Now()) || e.Raw != c.w.Elapsed() {
			t.Errorf("its clocks are judged by %+v", e)
		}
		other := c.host("m1")
		if apart := h.mono.Now() - other.mono.Now(); apart < machine.Mono(time.Hour) {
			t.Errorf("clocks of hosts are %v apart, want at least an hour", time.Duration(apart))
		}
		if err := cfg.WAL.FS.MkdirAll("/x"); err != nil {
			t.Errorf("its disk: %v", err)
		}
		h.life.p.End()
		h.disk.Kill()
		if err := cfg.WAL.FS.MkdirAll("/y"); err == nil {
			t.Error("its disk is not that of its process, which has ended")
		}
	})
}

// Ways between members are far where a world says so, and those of clients are not.
func TestMembersAreFarApart(t *testing.T) {
	for _, far := range []time.Duration{0, 10 * time.Second} {
		world.Play(t, world.Options{Seed: 1, Memory: true}, func(w *world.World) {
			c := newCluster(w, Spec{Members: 2, Far: far})
			took := func(from, to string) (most time.Duration) {
				l, err := c.net.Listen(w.Start(to), 1)
				if err != nil {
					w.T().Fatal(err)
				}
				defer l.Close()
				dial := c.net.Dialer(w.Start(from))
				for range 20 {
					began := w.Elapsed()
					conn, err := dial(context.Background(), to+":1")
					if err != nil {
						w.T().Fatal(err)
					}
					conn.Close()
					most = max(most, w.Elapsed()-began)
				}
				return most
			}
			members, client := took("m0", "m1"), took("c0", "m1")
			if client > 20*time.Millisecond || (members > time.Second) != (far > 0) {
				w.T().Errorf("members are up to %v apart: a connection between them takes %v at most, and one of a client %v", far, members, client)
			}
			if c.spec.Pace != 400*time.Millisecond || c.spec.Way != 3*time.Millisecond {
				w.T().Errorf("by default clients think for %v and a way takes %v", c.spec.Pace, c.spec.Way)
			}
		})
	}
}
