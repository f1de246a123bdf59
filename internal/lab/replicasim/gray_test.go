package replicasim

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
)

func TestHoldup(t *testing.T) {
	first, second := leadership{leader: 1, term: 2}, leadership{leader: 3, term: 4}
	var h holdup
	for _, tt := range []struct {
		name             string
		at               time.Duration
		leadership       leadership
		commit, released uint64
		well             bool
		want             time.Duration
	}{
		{"nothing is held", 10 * time.Second, first, 5, 5, true, 0},
		{"an entry is", 11 * time.Second, first, 7, 5, true, 0},
		{"for a second", 12 * time.Second, first, 8, 6, true, time.Second},
		{"another one is", 13 * time.Second, first, 9, 7, true, 0},
		{"for a second", 14 * time.Second, first, 9, 8, true, time.Second},
		{"the next leader is not to blame", 15 * time.Second, second, 9, 8, true, 0},
		{"but soon is", 16 * time.Second, second, 9, 8, true, time.Second},
		{"most are not well", 17 * time.Second, second, 9, 8, false, 0},
		{"they are again", 18 * time.Second, second, 9, 8, true, time.Second},
	} {
		if got := h.look(tt.at, tt.leadership, tt.commit, tt.released, tt.well); got != tt.want {
			t.Errorf("%s: held back for %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestWell(t *testing.T) {
	for _, tt := range []struct {
		name  string
		amiss func(c *Cluster, lead, f *Member)
		want  bool
	}{
		{"one of three is down", func(_ *Cluster, lead, f *Member) {}, true},
		{"the leader does not hear another", func(c *Cluster, lead, f *Member) { c.net.Cut(f.ID, lead.ID) }, false},
		{"the leader is not heard by another", func(c *Cluster, lead, f *Member) { c.net.Cut(lead.ID, f.ID) }, false},
		{"another's disk is slow", func(_ *Cluster, lead, f *Member) { f.Disk.Slow = time.Second }, false},
		{"the leader's is", func(_ *Cluster, lead, f *Member) { lead.Disk.Slow = time.Second }, false},
	} {
		w := sim.NewWorld(1)
		c := &Cluster{Options: Options{Voters: 3, Learners: 1}, w: w, net: sim.NewNetwork(w, nil)}
		for id := range machine.NodeID(4) {
			if m := member(c, uint64(id+1)); id != 2 {
				m.Start(idle{})
			}
		}
		tt.amiss(c, c.members[0], c.members[1])
		if got := c.well(c.members[0], []uint64{1, 2, 3}); got != tt.want {
			t.Errorf("%s: well: %v, want %v", tt.name, got, tt.want)
		}
	}
}
