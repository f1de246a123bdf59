package widearea

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/pushlease"
)

// Section 3.8 and Figure 7: under the paper's own protocol a holder's death keeps writes
// waiting for grace, guard and lease. Leases that are asked for, and last half as long,
// cost a sixth of that.
func TestDeathUnderControls(t *testing.T) {
	for _, tc := range []struct {
		name     string
		control  control
		length   time.Duration
		site     int
		min, max float64 // of the longest wait, s
		messages float64
	}{
		{"pushed", pushed(pushlease.PaperLengths), 0, holderThatDies, 8, 9.4, 80},
		{"asked for", control{}, time.Second, holderThatDies, 0.7, 1.5, 160},
		{"pushed, the leader dies", pushed(pushlease.PaperLengths), 0, Leader, 8, 9.4, 80},
		{"pushed, shorter", pushed(sweepLengths(0.25)[3]), 0, holderThatDies, 2, 2.6, 320},
	}[:cases(1, 4)] {
		toll, err := deaths{Seed: 1, Policy: sweepPolicy, Length: tc.length, Control: tc.control, Site: tc.site, Times: 1}.play()
		if err != nil {
			t.Fatal(err)
		}
		if s := toll.Held.Slowest / 1000; s < tc.min || s > tc.max {
			t.Errorf("%s: a write waits for %v s, want %v to %v", tc.name, s, tc.min, tc.max)
		}
		if toll.Messages < 0.95*tc.messages || toll.Messages > 1.05*tc.messages {
			t.Errorf("%s: %v messages a second, want %v", tc.name, toll.Messages, tc.messages)
		}
		if n := len(toll.Before); n < 20 || toll.Before[n-1][1] < 0.9 {
			t.Errorf("%s: local reads before the death: %v, want almost all", tc.name, toll.Before)
		}
		if toll.Stale != 0 || toll.Control != tc.control.Name {
			t.Errorf("%s: %d operations are stale under control %q", tc.name, toll.Stale, toll.Control)
		}
	}
}

// Section 3.5: when keys get other holders, the first way of the paper's has all leases lapse,
// and the second has writes wait for the former holders. The product's does neither.
func TestChangesUnderControls(t *testing.T) {
	shifts := map[string]Shift{}
	for _, d := range []changes{{Length: time.Second}, {Control: lapsing(pushlease.PaperLengths)}, {Control: abiding(pushlease.PaperLengths)}} {
		d.Seed, d.Times = 1, 1
		s, err := d.play()
		if err != nil {
			t.Fatal(err)
		}
		if s.Stale != 0 || s.Failed != 0 {
			t.Errorf("%s: %d operations are stale, %d failed", s.Control, s.Stale, s.Failed)
		}
		least := 1.0
		for _, step := range s.Local {
			least = min(least, step[1])
		}
		if lapses := s.Control == "lapse"; lapses != (least < 0.8) {
			t.Errorf("%q: in half a second %v of the reads are local: %v", s.Control, least, s.Local)
		}
		if s.Before.MeanWrite < 115 {
			t.Errorf("%q: before the change a write takes %v ms, without a holder at JP", s.Control, s.Before.MeanWrite)
		}
		shifts[s.Control] = s
	}
	if ours, abide := shifts[""].After.MeanWrite, shifts["abide"].After.MeanWrite; ours > 95 || abide < 110 {
		t.Errorf("writes after the change: %v ms, and %v ms when it is abided by", ours, abide)
	}
}

func TestSweepLengths(t *testing.T) {
	if list := sweepLengths(1); len(list) != 1 || list[0] != pushlease.PaperLengths {
		t.Errorf("got %v, want the paper's once", list)
	}
	list := sweepLengths(0.5, 2)
	if len(list) != 8 {
		t.Fatalf("%d lengths", len(list))
	}
	for i, want := range []time.Duration{8000, 11_000, 8000, 11_000, 6500, 14_000, 4500, 18_000} { // lease, guard, grace, all
		if got := list[i].Stall(); got != want*time.Millisecond {
			t.Errorf("%+v: a stall of %v, want %v", list[i], got, want*time.Millisecond)
		}
		if err := list[i].Check(); err != nil {
			t.Errorf("%+v: %v", list[i], err)
		}
	}
}

// A plan's controls are measured when the policies are there that they take.
func TestControlPlan(t *testing.T) {
	long(t)
	p := controlPlan{Lengths: sweepLengths(0.25)[3], Deaths: 1, Sweep: sweepLengths(0.25)[3:], Sweeps: 1}
	last := 0
	r, err := p.measure(1, func(_ string, n int) { last = n })
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Deaths) != 3 || len(r.Sweep) != 1 || len(r.Changes) != 2 || last != p.units() {
		t.Errorf("%d and %d tolls, %d shifts, %d of %d deaths", len(r.Deaths), len(r.Sweep), len(r.Changes), last, p.units())
	}
	for _, x := range append(r.Deaths, r.Sweep...) {
		if x.Stale != 0 {
			t.Errorf("%s, %s: %d operations are stale", x.Control, x.Site, x.Stale)
		}
	}
	if first := r.Deaths[0]; first.Control != "pushed" || first.Grace != 1.25 || first.Length != 0.5 || r.Deaths[1].Control != "the paper's" {
		t.Errorf("got %+v, then %q", first, r.Deaths[1].Control)
	}
	none := controlPlan{}
	if r, err := none.measure(1, nil); err != nil || len(r.Deaths)+len(r.Sweep) != 0 || none.units() != 0 {
		t.Errorf("no controls: %+v, %v", r, err)
	}
}
