package widearea

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// Without leases a follower's death costs nothing, and the leader's an election.
func TestDeathWithoutLeases(t *testing.T) {
	follower, err := deaths{Seed: 1, Policy: "off", Site: 3, Times: cases(1, 2)}.play()
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Writes{"held": follower.Held, "other": follower.Other} {
		if w.MaxStall > 0.05 || w.MaxStall < w.Stall {
			t.Errorf("%s: a follower's death stalls writes for %v s, and %v at most", name, w.Stall, w.MaxStall)
		}
		if want := int((before + after) / (2 * writeEvery)); len(w.Series) < want-2 || len(w.Series) > want+2 {
			t.Errorf("%s: %d writes in the series, want about %d", name, len(w.Series), want)
		}
	}
	leader, err := deaths{Seed: 1, Policy: "off", Site: Leader, Times: 1}.play()
	if err != nil {
		t.Fatal(err)
	}
	if s := leader.Held.Stall; s < 0.9 || s > 3 {
		t.Errorf("the leader's death stalls writes for %v s, want about an election timeout", s)
	}
	if leader.Failed != 0 || follower.Failed != 0 {
		t.Errorf("%d and %d writes failed: a change of leader costs time and no error", leader.Failed, follower.Failed)
	}
	if again, _ := (deaths{Seed: 1, Policy: "off", Site: Leader, Times: 1}).play(); !reflect.DeepEqual(again, leader) {
		t.Error("the same seed gave another course of events")
	}
}

// A holder that dies keeps writes waiting until its lease is over, and no longer.
func TestDeathOfAHolder(t *testing.T) {
	const length = 2 * time.Second
	toll, err := deaths{Seed: 1, Policy: "all", Length: length, Site: 3, Times: 2}.play()
	if err != nil {
		t.Fatal(err)
	}
	if s := toll.Held.MaxStall; s < length.Seconds()/2 || s > length.Seconds()*1.05+0.5 {
		t.Errorf("with leases of %v writes stall for %v s", length, s)
	}
	if toll.Stale != 0 || toll.Failed != 0 {
		t.Errorf("%d operations are stale and %d failed, want none", toll.Stale, toll.Failed)
	}
	if toll.Held.Usual > toll.Held.Slowest {
		t.Errorf("writes took up to %v ms before the death and %v after", toll.Held.Usual, toll.Held.Slowest)
	}
}

// A write that fails is counted, and so is how long it took to fail.
func TestFailedWrites(t *testing.T) {
	s := time.Second
	x := &death{at: 100 * s}
	x.answered(1, 98*s, 99*s, nil)
	x.answered(1, 101*s, 105*s, errors.New("nobody knows"))
	x.answered(0, 90*s, 105*s, errors.New("long before the death"))
	if got := x.stall(1); x.failed != 1 || got != 3*s || len(x.writes[0]) != 0 {
		t.Errorf("%d failed, a stall of %v, want 1 and 3 s; %v", x.failed, got, x.writes)
	}
}

func TestStall(t *testing.T) {
	s := time.Second
	x := &death{writes: [2][]write{{{-9 * s, -7 * s}, {-3 * s, -2 * s}, {-1 * s, 4 * s}, {2 * s, 3 * s}}, {{-1 * s, 0}, {0, s / 2}}}}
	if got := x.stall(0); got != 3*s {
		t.Errorf("five seconds instead of two: got %v", got)
	}
	if got := x.stall(1); got != 0 {
		t.Errorf("less than before: got %v", got)
	}
}
