package memberworld

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/sim/world"
)

// directed plays a few worlds of one kind, in which it has to happen what is to be judged.
func directed(t *testing.T, n int, musts []string, spec func(d drawer) Spec) {
	t.Helper()
	world.Batch(t, n, n, musts, func(t *testing.T, seed uint64) world.Result {
		return Play(t, seed, spec(drawer{world.Rand(seed, "spec"), &Spec{Members: 3}}))
	})
}

// TestPowerCuts cuts the power of all machines at once, again and again, at any call of a
// disk: only what was synced is there afterwards.
func TestPowerCuts(t *testing.T) {
	directed(t, 3, []string{"fault: crash", "log: saved a snapshot"}, func(d drawer) Spec {
		s := Spec{Members: 3, Policy: "off", Storm: 20 * time.Second, Clients: 3, Pace: 60 * time.Millisecond, SnapshotBytes: 8 << 10}
		ops := []string{"sync", "sync", "write", "syncdir", "rename", "remove"}
		for m, nth := range []int{40, 60, 80} {
			for i := range 3 {
				op := ops[d.IntN(len(ops))]
				at := nth * (i + 1) * 2
				if op != "sync" && op != "write" {
					at = 4 + 3*i + m
				}
				s.Faults = append(s.Faults, world.Fault{Who: fmt.Sprintf("m%d", m), Seam: world.Disk, Op: op, Nth: at, Kind: world.Crash, With: everywhere})
			}
		}
		return s
	})
}

// TestApart cuts each member off from the others for longer than its promises last, while
// its own clients go on reading, and others write.
func TestApart(t *testing.T) {
	directed(t, 2, []string{"fault: isolate"}, func(d drawer) Spec {
		s := Spec{Members: 3, Policy: "all", Storm: 24 * time.Second, Clients: 3, Pinned: true, Pace: 60 * time.Millisecond}
		for i := range 6 {
			s.Faults = append(s.Faults, world.Fault{
				Who: fmt.Sprintf("m%d", i%3), At: time.Duration(2+3*i)*time.Second + d.span(time.Second),
				Kind: world.Isolate, With: fromMembers, For: 2500 * time.Millisecond,
			})
		}
		return s
	})
}

// TestStandingStill stops each process for longer than any lease lasts.
func TestStandingStill(t *testing.T) {
	directed(t, 2, []string{"fault: freeze", "elections"}, func(d drawer) Spec {
		s := Spec{Members: 3, Policy: "all", Storm: 26 * time.Second, Clients: 3, Pinned: true, Pace: 60 * time.Millisecond}
		for i := range 4 {
			f := world.Fault{Who: fmt.Sprintf("m%d", i%3), Kind: world.Freeze, For: 3*time.Second + d.span(4*time.Second)}
			f.Seam, f.Op, f.Nth = world.Network, "write", 100+d.IntN(500)
			if d.IntN(2) == 0 {
				f.Seam, f.Op, f.Nth = world.Clock, "now", 300+d.IntN(1500)
			}
			s.Faults = append(s.Faults, f)
		}
		return s
	})
}

// TestComingAndGoing adds, promotes, replaces and removes members.
func TestComingAndGoing(t *testing.T) {
	directed(t, 2, []string{"changes: add", "changes: promote", "changes: remove", "changes: replace", "members dismissed", "log: caught up by a snapshot"}, func(d drawer) Spec {
		s := Spec{Members: 3, Spares: 1, Policy: "leader", Storm: 25 * time.Second, Clients: 2, Pace: 80 * time.Millisecond, SnapshotBytes: 8 << 10}
		for i, what := range []string{"add", "promote", "replace", "remove"} {
			who := "m3"
			if what == "replace" {
				who = d.member()
			}
			s.Faults = append(s.Faults, world.Fault{Who: who, At: time.Duration(4+4*i) * time.Second, Kind: world.Member, With: what})
		}
		return s
	})
}

// TestFullAndFailing has disks fill up and fail.
func TestFullAndFailing(t *testing.T) {
	directed(t, 2, []string{"fault: no space", "fault: fail", "ended by itself"}, func(d drawer) Spec {
		s := Spec{Members: 3, Policy: "leader", Storm: 20 * time.Second, Clients: 3, Pace: 100 * time.Millisecond, SnapshotBytes: 8 << 10}
		ops := []string{"sync", "write", "syncdir", "rename", "remove", "open", "preallocate", "truncate"}
		for i := range 8 {
			f := world.Fault{Who: d.member(), Seam: world.Disk, Op: ops[i], Nth: 10 + d.IntN(20), Kind: world.Fail, For: d.span(time.Second)}
			if i < 2 {
				f.Nth *= 10
			}
			s.Faults = append(s.Faults, f)
		}
		s.Faults = append(s.Faults, world.Fault{Who: d.member(), At: 10 * time.Second, Seam: world.Disk, Kind: world.NoSpace, For: 3 * time.Second})
		return s
	})
}
