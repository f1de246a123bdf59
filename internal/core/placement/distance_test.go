package placement

import (
	"testing"
	"time"
)

// TestFloors has the least write latencies that Table 1 allows, by site: with the
// leader's lease alone, with the two static cells of section 5.2, and when all hold.
func TestFloors(t *testing.T) {
	d := wideDistances()
	west, east, all := SetOf(ca, jp, or), SetOf(ca, va, irl), first(sites)
	for _, test := range []struct {
		name    string
		holders Set
		want    [sites]float64
		write   func(int, Set) time.Duration
	}{
		{"three delays, leader", SetOf(ca), [sites]float64{130, 85, 90, 90, 163.5}, d.Write},
		{"three delays, west", west, [sites]float64{130, 120, 130, 192.5, 270}, d.Write},
		{"three delays, east", east, [sites]float64{270, 150, 170, 163.5, 163.5}, d.Write},
		{"three delays, all", all, [sites]float64{270, 150, 170, 192.5, 270}, d.Write},
		{"four delays, leader", SetOf(ca), [sites]float64{205, 85, 105, 170, 235}, d.WriteByLeader},
		{"four delays, all", all, [sites]float64{270, 150, 170, 235, 300}, d.WriteByLeader},
	} {
		for site, want := range test.want {
			if got := test.write(site, test.holders); got != duration(want) {
				t.Errorf("%s: a write at %s takes %v, want %v", test.name, wide[site].Name, got, duration(want))
			}
		}
	}
}

func TestReads(t *testing.T) {
	d := wideDistances()
	for _, test := range []struct {
		site    int
		holders Set
		want    float64
		nearest float64
	}{
		{jp, SetOf(jp, ca), 0.4, 0.4},
		{ca, SetOf(ca), 0.4, 0.4},
		{irl, SetOf(ca), 150, 150},
		{irl, SetOf(ca, va), 150, 92},
		{or, SetOf(ca, va), 20, 20},
	} {
		got, nearest := d.Read(test.site, test.holders), d.ReadNearest(test.site, test.holders)
		if got != duration(test.want) || nearest != duration(test.nearest) {
			t.Errorf("a read at %s with holders %b takes %v, or %v at the nearest, want %v and %v",
				wide[test.site].Name, test.holders, got, nearest, duration(test.want), duration(test.nearest))
		}
	}
}

func TestDistancesThatAreNotKnown(t *testing.T) {
	d := NewDistances(3, first(3), 0)
	if got := d.Read(1, SetOf(0)); got != time.Millisecond {
		t.Errorf("with no distance known a read elsewhere takes %v, want 1ms", got)
	}
	d.Set(0, 1, 10*time.Millisecond)
	d.Set(0, 2, 30*time.Millisecond)
	if got := d.ReadNearest(1, SetOf(2)); got != 30*time.Millisecond {
		t.Errorf("over an unknown distance a read takes %v, want the longest that is known, 30ms", got)
	}
	// From 1 to the leader 0 and back: with 0 and 1 there is a majority.
	if got := d.Write(1, SetOf(0)); got != 10*time.Millisecond {
		t.Errorf("a write at 1 takes %v, want 10ms", got)
	}
}

// TestVotersAndLearners: who has no vote counts as a holder only, and who is down not at
// all.
func TestVotersAndLearners(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	d := NewDistances(4, SetOf(0, 1, 2), 0)
	for i, rtt := range []int{0, 40, 60, 2} {
		d.Set(0, i, ms(rtt))
	}
	if got := d.Write(0, SetOf(0)); got != ms(40) {
		t.Errorf("a write takes %v, want 40ms: the near learner has no vote", got)
	}
	d.Set(0, 3, ms(100))
	if got := d.Write(0, SetOf(0, 3)); got != ms(100) {
		t.Errorf("a write takes %v, want 100ms: the learner holds", got)
	}
	d.down = SetOf(1)
	if got := d.Write(0, SetOf(0)); got != ms(60) {
		t.Errorf("a write takes %v with the nearest voter down, want 60ms", got)
	}
	d.down = SetOf(1, 2)
	if got := d.Write(0, SetOf(0)); got != 0 {
		t.Errorf("a write takes %v without majority, want the result of those that are there", got)
	}
}

// A write is decided by more than half of the voters, in a group of any size.
func TestAMajorityOfAnyGroup(t *testing.T) {
	for voters, want := range []int{1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3} {
		if voters == 0 {
			continue
		}
		d := NewDistances(voters, first(voters), 0)
		for i := range voters {
			d.Set(0, i, time.Duration(10*i)*time.Millisecond) // the nth other answers after 10n ms
		}
		if got, want := d.WriteByLeader(0, 0), time.Duration(10*want)*time.Millisecond; got != want {
			t.Errorf("among %d voters a write takes %v, want %v", voters, got, want)
		}
	}
}
