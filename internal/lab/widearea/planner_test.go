package widearea

import (
	"crypto/rand"
	"io"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/lab/sim"
)

// TestReadsTakeWhatThePlannerThinks: the planner's price of a read, by which it decides the
// holders, is the time that a replica needs for it (R29).
func TestReadsTakeWhatThePlannerThinks(t *testing.T) {
	defer func(before io.Reader) { rand.Reader = before }(rand.Reader) // it is raft's, and the process's
	d := placement.NewDistances(len(Sites), 1<<len(Sites)-1, Leader)
	for a := range Sites {
		for b := range a {
			d.Set(a, b, RoundTrip(a, b))
		}
	}
	w := sim.NewWorld(1)
	c, err := start(w, "static/key", time.Second, control{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	// For Ireland Virginia is nearer than the leader in California.
	const holders = "default = 2,4"
	if !c.Divide(holders) {
		t.Fatalf("%s is not in force", holders)
	}
	set := placement.SetOf(Leader, 3)
	read := func(site int) (took time.Duration) {
		done, began := false, w.Now()
		c.Member(replicaAt(site)).GetAll([][]byte{[]byte("k")}, func([]int64) { done, took = true, w.Now()-began })
		if !w.Until(10*time.Second, func() bool { return done }) {
			t.Fatalf("a read at %s takes for ever", Sites[site])
		}
		return took
	}
	for range 5 { // the holders take leases when they are read from
		for site := range Sites {
			read(site)
		}
	}
	for site, name := range Sites {
		got, want := read(site), d.Read(site, set)
		if got < want || got > want+5*time.Millisecond {
			t.Errorf("a read at %s takes %v, and the planner thinks %v", name, got, want)
		}
	}
}
