package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLearning has the policies learn the paper's workload from what clients do: 225,000
// operations in 5 minutes, most keys never seen.
func TestLearning(t *testing.T) {
	w := newWorkload(100_000, 0.99, 0.9)
	for _, test := range []struct {
		policy Policy
		local  [sites]float64 // at least
		op     float64        // at most
	}{
		{Cost, [sites]float64{0.98, 1, 0.98, 0.98, 0.98}, 18},
		{Quorum, [sites]float64{0.805, 1, 0.88, 0.88, 0.805}, 27},
	} {
		t.Run(test.policy.String(), func(t *testing.T) {
			s, src := newStage(t, Settings{Policy: test.policy}), rand.NewPCG(1, 2)
			var before, conf *Configuration
			for range 30 {
				w.run(s.counters, 1500, src)
				before = s.Present()
				conf, _ = s.plan(10)
			}
			got := w.under(conf)
			changes, _ := Diff(before, conf)
			t.Logf("%v; %d bytes, %d cells, %d changes at last", got, len(conf.Encode()), len(conf.Cells()), len(changes))
			for site, want := range test.local {
				if got.local[site] < want {
					t.Errorf("%.1f %% of the reads are local at %s, want %.0f %% or more", 100*got.local[site], wide[site].Name, 100*want)
				}
			}
			if got.op > test.op {
				t.Errorf("the mean operation takes %.1f ms, want %.1f or less", got.op, test.op)
			}
			if n := len(changes); n > 1000 {
				t.Errorf("the last plan still changed %d cells", n)
			}
			if n := len(conf.Encode()); n > 100<<10 {
				t.Errorf("the configuration takes %d bytes", n)
			}
		})
	}
}

// TestColdKeys: keys of which nothing is known go by what is usual, and one key that is
// written all the time does not speak for all.
func TestColdKeys(t *testing.T) {
	for _, test := range []struct {
		name          string
		reads, writes int
		hot           bool
		want          Set
	}{
		{"all read", 9, 1, false, first(sites)},
		{"all write", 1, 9, false, SetOf(ca)},
		{"all read, and one key is written", 9, 1, true, first(sites)},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, Settings{Policy: Cost})
			for site := range sites {
				for i := range 200 {
					key := fmt.Sprintf("%d/%d", site, i)
					s.read(site, test.reads, key)
					s.write(site, test.writes, key)
				}
			}
			if test.hot {
				s.write(jp, 100_000, "counter")
			}
			conf, _ := s.plan(10)
			if got := conf.Default(); got != test.want {
				t.Errorf("what is not known is held by %05b, want %05b", got, test.want)
			}
			if test.hot {
				s.wantHeld("counter", SetOf(ca)) // writes would not wait for JP and OR, but who reads it?
			}
		})
	}
}

// TestIdle: where a key is not read it is not held either, even if that cost nothing as
// long as all live.
func TestIdle(t *testing.T) {
	s := newStage(t, Settings{Policy: Cost})
	for i := range 100 {
		s.read(va, 10, fmt.Sprint(i)) // by what is usual VA reads
		s.write(ca, 10, fmt.Sprint(i))
	}
	s.read(or, 5, "k")
	s.write(ca, 1, "k")
	s.plan(10)
	s.wantHeld("k", SetOf(ca, or, va)) // so few tell nothing of VA
	s.read(or, 20, "k")
	s.write(ca, 4, "k")
	s.plan(10)
	s.wantHeld("k", SetOf(ca, or))
	s.read(va, 5, "k")
	s.plan(10)
	s.wantHeld("k", SetOf(ca, or, va))
}

// TestForgetting: habits change, and holders follow within some half-lives, not at once.
func TestForgetting(t *testing.T) {
	for _, policy := range []Policy{Quorum, Cost} {
		t.Run(policy.String(), func(t *testing.T) {
			s := newStage(t, Settings{Policy: policy, HalfLife: time.Minute})
			phase := func(site int) (plans int) {
				for !s.Present().Holders([]byte("k")).Has(site) || plans == 0 {
					s.read(site, 100, "k")
					s.write(or, 40, "k")
					s.plan(10)
					if plans++; plans > 60 {
						t.Fatalf("%s reads for 10 minutes and does not hold", wide[site].Name)
					}
				}
				for range 30 {
					s.read(site, 100, "k")
					s.write(or, 40, "k")
					s.plan(10)
				}
				return plans
			}
			if n := phase(jp); n != 1 {
				t.Errorf("the first reader holds after %d plans, want 1", n)
			}
			phase(va)
			if policy == Quorum { // two others than the leader hold: it takes a third reader
				phase(irl)
			}
			if s.Present().Holders([]byte("k")).Has(jp) {
				t.Error("a member that read it 5 half-lives ago still holds")
			}
		})
	}
}

// TestNotWavering: with loads that stay the same but for chance, and choices that are
// close, cells keep their holders; without the settings that see to it they do not.
func TestNotWavering(t *testing.T) {
	flips := func(policy Policy, price time.Duration, doubt float64) (n int) {
		s := newStage(t, Settings{Policy: policy, Buckets: 64, Price: price, Doubt: doubt, HalfLife: time.Minute, Cells: 1})
		rnd := rand.New(rand.NewPCG(11, 11))
		for round := range 120 {
			// Two readers too many for a quorum, alike; and reads that about pay for the
			// writes that they hold up.
			for k := range 40 {
				key := fmt.Sprint(k)
				for _, site := range []int{jp, or, va, irl} {
					s.read(site, poisson(rnd, 3), key)
					s.write(site, poisson(rnd, 2), key)
				}
			}
			before := s.Present()
			conf, changed := s.plan(10)
			if changes, _ := Diff(before, conf); round >= 60 {
				n += len(changes)
				if changed != (len(changes) > 0) {
					t.Errorf("changed is %v with %d changes", changed, len(changes))
				}
			}
		}
		return n
	}
	for _, policy := range []Policy{Quorum, Cost} {
		calm, wild := flips(policy, 0, 0), flips(policy, 1, 1e-9)
		t.Logf("%v: %d changes in 60 plans, %d without price and doubt", policy, calm, wild)
		if calm > 160 { // 40 buckets, 10 half-lives
			t.Errorf("%v: %d changes, want one in two and a half half-lives of a bucket or less", policy, calm)
		}
		if wild < 2*calm || wild < 100 {
			t.Errorf("%v: without price and doubt there are %d changes: the loads try too little", policy, wild)
		}
	}
}

// poisson draws a number with this mean: Knuth.
func poisson(rnd *rand.Rand, mean float64) (n int) {
	for p := rnd.ExpFloat64(); p < mean; p += rnd.ExpFloat64() {
		n++
	}
	return n
}

// TestFirstReaders: of what nobody was seen to use, each member that does not lead holds
// a part, so that its first reads are local; but not of what is written and never read.
func TestFirstReaders(t *testing.T) {
	s := newStage(t, Settings{Policy: Quorum})
	for site := range sites {
		for i := range 100 {
			s.read(site, 9, fmt.Sprintf("%d/%d", site, i))
			s.write(site, 1, fmt.Sprintf("%d/%d", site, i))
		}
	}
	s.write(jp, 20, "counter")
	s.plan(10)
	held := [sites]int{}
	for i := range 1000 {
		set := s.Present().Holders(fmt.Appendf(nil, "cold%d", i))
		if set.Len() != 3 {
			t.Fatalf("cold%d is held by %05b, want three", i, set)
		}
		for site := range sites {
			if set.Has(site) {
				held[site]++
			}
		}
	}
	if held[ca] != 1000 || min(held[jp], held[or], held[va], held[irl]) < 200 {
		t.Errorf("of 1000 keys that nobody was seen to use they hold %d: want a part each, and all at the leader", held)
	}
	s.wantHeld("counter", SetOf(ca))

	// A member that was seen to read gives way to no turn, and a turn gives way to a member
	// that reads.
	for i := range 100 {
		s.read(jp, 1, fmt.Sprintf("first%d", i))
	}
	s.plan(10)
	for i := range 100 {
		if set := s.Present().Holders(fmt.Appendf(nil, "first%d", i)); !set.Has(jp) {
			t.Errorf("first%d is held by %05b, and not where it was read", i, set)
		}
	}
	for i := range 100 {
		s.read(irl, 1, fmt.Sprintf("first%d", i))
	}
	s.plan(10)
	for i := range 100 {
		if set := s.Present().Holders(fmt.Appendf(nil, "first%d", i)); !set.Has(jp) || !set.Has(irl) {
			t.Errorf("first%d is held by %05b, want both that read it", i, set)
		}
	}
}

// TestIdleHolders: where writes are as many as reads, somebody idle gives way to who
// reads twice, and not to a single read.
func TestIdleHolders(t *testing.T) {
	s := newStage(t, Settings{Policy: Quorum})
	s.write(ca, 1000, "other")
	s.read(jp, 1, "k")
	s.plan(10)
	s.wantHeld("k", SetOf(ca, jp, or)) // OR has a place that is free
	s.read(irl, 1, "k")
	s.plan(10)
	s.wantHeld("k", SetOf(ca, jp, or))
	s.read(irl, 1, "k")
	s.plan(10)
	s.wantHeld("k", SetOf(ca, jp, irl))
}

// TestIdleUnderCost: who reads as much as anybody, but for some keys, does not hold those,
// whatever is usual. To have it hold them would cost nothing before it dies.
func TestIdleUnderCost(t *testing.T) {
	for name, elsewhere := range map[string]bool{"it reads them too": false, "it reads others only": true} {
		s := newStage(t, Settings{Policy: Cost})
		for i := range 200 {
			for site := range wide {
				s.read(site, 5, fmt.Sprint("usual", i))
			}
			s.write(ca, 1, fmt.Sprint("usual", i))
		}
		for site := range wide {
			if site != jp || !elsewhere {
				s.read(site, 40, "k")
			}
		}
		s.plan(10)
		if set := s.Present().Holders([]byte("k")); set.Has(jp) == elsewhere || !set.Has(irl) {
			t.Errorf("%s: the key is held by %05b", name, set)
		}
	}
}

// The usual load is expected where nothing is known, in the shares of all there is; where
// there is nothing nothing is, and the Quorum policy expects a write at each site.
func TestWhatIsExpected(t *testing.T) {
	mix := []float32{6, 0, 1, 1} // two sites
	for _, c := range []struct {
		policy Policy
		mix    []float32
		want   []float64
	}{
		{Cost, mix, []float64{3, 0, 0.5, 0.5}},
		{Cost, make([]float32, 4), []float64{0, 0, 0, 0}},
		{Quorum, mix, []float64{3, 0, 1, 1}},
		{Quorum, make([]float32, 4), []float64{0, 0, 1, 1}},
	} {
		m := &measure{policy: c.policy, prior: make([]float64, 4)}
		if m.expect(c.mix, 4); !slices.Equal(m.prior, c.want) {
			t.Errorf("%v: of a mix of %v, %v is expected, want %v", c.policy, c.mix, m.prior, c.want)
		}
	}
}
