package abcastsim

import "testing"

// Figure 5, and section 4.3 on an instance by itself, counted message by message.
func TestFigure5(t *testing.T) {
	f, err := CountFigure5(1, 3, 5, 7)
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64]int{0: 400, 1: 500, 10: 320, 20: 310, 50: 304, 100: 302}
	if len(f.Counted) != 3*6 {
		t.Fatalf("%d runs, want 18", len(f.Counted))
	}
	for _, c := range f.Counted {
		if c.Steps != want[c.Lambda] {
			t.Errorf("%s, %d members, λ = %d: %d steps, want %d", c.Algorithm, c.Members, c.Lambda, c.Steps, want[c.Lambda])
		}
	}
	for _, c := range f.Alone {
		want := map[string]int{"fastct": 5, "ct96": 4}[c.Algorithm]
		if c.Steps != want {
			t.Errorf("one instance of %s, %d members: %d steps, want %d", c.Algorithm, c.Members, c.Steps, want)
		}
	}
	for _, c := range f.Starts {
		want := map[string]int{"λmax/2": 304, "λmax": 302}[c.Start]
		if c.Steps != want {
			t.Errorf("a start with %s, %d members: %d steps, want %d", c.Start, c.Members, c.Steps, want)
		}
	}
}

// The steps are a matter of the algorithm and not of delays.
func TestStepsDoNotDependOnDelays(t *testing.T) {
	for seed := uint64(2); seed < 12; seed++ {
		f, err := CountFigure5(seed, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range f.Counted {
			if i < len(PaperFigure5) && c.Steps != PaperFigure5[i].FastCT {
				t.Errorf("seed %d, λ = %d: %d steps, want %d", seed, c.Lambda, c.Steps, PaperFigure5[i].FastCT)
			}
		}
	}
}

// A leader that dies with a long lease keeps the others from FAST mode for longer.
func TestCrashes(t *testing.T) {
	for _, n := range []int{3, 5, 7} {
		crashes, err := CountCrashes(1, 3, n, 1, 10, 20, 50, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range crashes {
			t.Logf("%+v", c)
			if i > 0 && c.Normal <= crashes[i-1].Normal {
				t.Errorf("%d members: λ = %d costs %d instances in NORMAL mode, and λ = %d %d", n, c.Lambda, c.Normal, crashes[i-1].Lambda, crashes[i-1].Normal)
			}
		}
	}
}
