package placement

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var rewritePlans = flag.Bool("rewrite-plans", false, "write testdata/plans.txt with the plans as they are")

// Planners of all kinds plan as they always did. The figures are small, so that price, doubt,
// prior and distances each decide somewhere. Readers and writers change on the way, a member
// goes and comes back, and another one leads in the end. A plan that differs is no fault by
// itself. But that it does should be meant, and testdata/plans.txt written anew.
func TestPlansAreAsTheyWere(t *testing.T) {
	const path = "testdata/plans.txt"
	var all strings.Builder
	for _, c := range []struct {
		name string
		s    Settings
		rtt  bool // distances are known
	}{
		{"quorum", Settings{Policy: Quorum, Buckets: 16, Cells: 12}, true},
		{"quorum, far apart in time", Settings{Policy: Quorum, Buckets: 8, HalfLife: 20 * time.Second}, true},
		{"cost", Settings{Policy: Cost, Buckets: 16, Cells: 12}, true},
		{"cost, far apart in time", Settings{Policy: Cost, Buckets: 8, HalfLife: 20 * time.Second}, true},
		{"cost by the leader", Settings{Policy: Cost, Buckets: 16, ByLeader: true, Price: time.Millisecond, Doubt: 0.01}, true},
		{"cost at the nearest", Settings{Policy: Cost, Buckets: 16, Nearest: true, Prior: 20}, true},
		{"cost over distances that are not known", Settings{Policy: Cost, Buckets: 4}, false},
	} {
		fmt.Fprintf(&all, "# %s\n", c.name)
		plansOf(t, &all, c.s, c.rtt)
	}
	if *rewritePlans {
		if err := os.WriteFile(path, []byte(all.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(all.String(), "\n"), strings.Split(string(raw), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s:%d: the plan is now\n%s, and was\n%s", path, i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d lines of plans, and were %d", len(got), len(want))
	}
}

// plansOf writes the plans of one planner, and of the one that takes over from it.
func plansOf(t *testing.T, out *strings.Builder, settings Settings, rtt bool) {
	settings.Members, settings.Leader = wide, 2
	p, err := NewPlanner(settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	know := func() {
		for a := range sites {
			for b := a; b < sites && rtt; b++ {
				p.RTT(wide[a].ID, wide[b].ID, duration(table1[a][b]))
			}
		}
	}
	know()
	s := &stage{TB: t, Planner: p, counters: newCounters(settings.Buckets)}
	rng := rand.New(rand.NewPCG(uint64(settings.Policy), uint64(settings.Buckets)))
	for round := range 24 {
		for k := range 20 {
			key := fmt.Sprintf("k%02d", k)
			home := (k + round/8) % sites // who reads moves on
			s.read(home, rng.IntN(1+k), key)
			s.read(rng.IntN(sites), rng.IntN(4), key)
			s.write(rng.IntN(sites), rng.IntN(1+(20-k)/4), key)
		}
		s.write(va, rng.IntN(12), "k03", "k04")
		s.write(irl, rng.IntN(12), "k04", "k05")
		s.write(jp, rng.IntN(3), "k18", "k19", "k02")
		times(rng.IntN(30), func() { s.counters[irl].ReadRange([]byte("k1"), []byte("k2")) })
		times(rng.IntN(10), func() { s.counters[jp].ReadRange([]byte("k15"), []byte("l")) })
		times(rng.IntN(40), func() { s.counters[or].ReadRange([]byte("x"), []byte("\x00")) })
		switch round {
		case 10:
			s.Down(wide[jp].ID, true)
		case 14:
			s.Down(wide[jp].ID, false)
		case 18:
			settings.Leader = wide[va].ID
			if s.Planner, err = NewPlanner(settings, s.Present()); err != nil {
				t.Fatal(err)
			}
			p = s.Planner
			know()
		}
		conf, changed := s.plan(5 + float64(round%4)*5)
		fmt.Fprintf(out, "%d %v %s\n", round, changed, conf.Format(wide))
	}
	s.plan(3600) // all is forgotten
	conf, _ := s.plan(10)
	fmt.Fprintf(out, "forgotten %s\n", conf.Format(wide))
}
