package memberworld

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// directed plays a few worlds of one kind, in which the judged event has to happen.
func directed(t *testing.T, n int, musts []string, spec func(seed uint64, d drawer) Spec) {
	t.Helper()
	world.Batch(t, n, n, musts, func(t *testing.T, seed uint64) world.Result {
		return play(t, seed, spec(seed, drawer{world.Rand(seed, "spec"), &Spec{Members: 3}}))
	})
}

// TestPowerCuts cuts the power of all machines at once, again and again, at any call of a disk:
// only synced data is there afterwards.
func TestPowerCuts(t *testing.T) {
	directed(t, 3, []string{"fault: crash", "log: saved a snapshot"}, func(seed uint64, d drawer) Spec {
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
	policies := []string{"all", "off"}
	directed(t, 2, []string{"fault: isolate"}, func(seed uint64, d drawer) Spec {
		s := Spec{
			Members: 3, Policy: policies[seed%2], Storm: 24 * time.Second, Clients: 6, Pinned: true, Pace: 60 * time.Millisecond,
			Far: 60 * time.Millisecond, Readers: true,
		}
		for i := range 6 {
			s.Faults = append(s.Faults, world.Fault{
				Who: fmt.Sprintf("m%d", i%3), At: time.Duration(2+3*i)*time.Second + d.span(time.Second),
				Kind: world.Isolate, With: fromMembers, For: 2500 * time.Millisecond,
			})
		}
		return s
	})
}

// TestStandingStill stops processes, and single threads between the reading of a clock and
// its use, for longer than promises last.
func TestStandingStill(t *testing.T) {
	directed(t, 2, []string{"fault: freeze", "fault: delay"}, func(seed uint64, d drawer) Spec {
		s := Spec{
			Members: 3, Policy: "all", Storm: 20 * time.Second, Clients: 9, Pinned: true, Pace: 60 * time.Millisecond,
			Readers: true, ReadTTL: 200 * time.Millisecond,
		}
		for i := range 12 {
			f := world.Fault{Who: fmt.Sprintf("m%d", i%3), Seam: world.Clock, Op: "now", Nth: 300 + d.IntN(6000), Kind: world.Delay, For: 300*time.Millisecond + d.span(time.Second)}
			if i%4 == 0 {
				f.Kind, f.For = world.Freeze, time.Second+d.span(4*time.Second)
			}
			s.Faults = append(s.Faults, f)
		}
		return s
	})
}

// TestForgottenPromises ends a member that has promised something to another, which the
// leader does not hear of: it must not forget that.
func TestForgottenPromises(t *testing.T) {
	directed(t, 2, []string{"fault: kill", "fault: cut"}, func(_ uint64, d drawer) Spec {
		s := Spec{
			Members: 3, Policy: "all", Storm: 28 * time.Second, Clients: 9, Pinned: true, Pace: 40 * time.Millisecond,
			Readers: true, ReadTTL: 3 * time.Second, Hurry: true,
		}
		for i := range 6 {
			at := time.Duration(3+4*i) * time.Second
			a, b, between := fmt.Sprintf("m%d", i%3), fmt.Sprintf("m%d", (i+1)%3), fmt.Sprintf("m%d", (i+2)%3)
			s.Faults = append(s.Faults,
				world.Fault{Who: a, With: b, At: at, Kind: world.Cut, For: 3500 * time.Millisecond},
				world.Fault{Who: b, With: a, At: at, Kind: world.Cut, For: 3500 * time.Millisecond},
				world.Fault{Who: between, At: at + 1500*time.Millisecond + d.span(2*time.Second), Kind: world.Kill})
		}
		return s
	})
}

// TestComingAndGoing adds, promotes, replaces and removes members.
func TestComingAndGoing(t *testing.T) {
	directed(t, 2, []string{"changes: add", "changes: promote", "changes: remove", "changes: replace", "members dismissed", "log: caught up by a snapshot"}, func(seed uint64, d drawer) Spec {
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

// TestCompactions has members compact while they are killed and cut off, and catch up by
// snapshots. Watchers come back to find that events that they have not seen are compacted.
func TestCompactions(t *testing.T) {
	directed(t, 1, []string{"compactions", "watches behind a compaction", "reads of what is compacted"}, func(seed uint64, d drawer) Spec {
		s := Spec{Members: 3, Policy: "leader", Storm: 20 * time.Second, Clients: 3, Pace: 60 * time.Millisecond, SnapshotBytes: 8 << 10, Compacts: true}
		for i := range 4 {
			who := fmt.Sprintf("m%d", i%3)
			at := time.Duration(3+4*i) * time.Second
			s.Faults = append(s.Faults,
				world.Fault{Who: who, At: at, Kind: world.Isolate, For: 2500 * time.Millisecond},
				world.Fault{Who: who, At: at + 2*time.Second + d.span(time.Second), Kind: world.Kill})
		}
		return s
	})
}

// TestFullAndFailing has disks fill up and fail.
func TestFullAndFailing(t *testing.T) {
	directed(t, 2, []string{"fault: no space", "fault: fail", "ended by itself"}, func(seed uint64, d drawer) Spec {
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

// TestEmptied has disks come back empty: a member that has forgotten its votes must not
// vote, and is replaced. Another was away when the last writes were acknowledged.
func TestEmptied(t *testing.T) {
	directed(t, 3, []string{"fault: empty", "fault: kill", "members that noticed that they lost data", "changes: replace"}, func(seed uint64, d drawer) Spec {
		s := Spec{Members: 3, Policy: "leader", Storm: 20 * time.Second, Clients: 3, Pace: 80 * time.Millisecond}
		a, b, between := d.apart()
		at := 4*time.Second + d.span(4*time.Second)
		s.Faults = append(s.Faults,
			world.Fault{Who: a, At: at, Kind: world.Isolate, For: 2 * time.Second}, // it misses the writes
			world.Fault{Who: b, At: at + 1900*time.Millisecond, Kind: world.Empty},
			world.Fault{Who: between, At: at + 1900*time.Millisecond, Kind: world.Isolate, For: 6 * time.Second})
		if seed%3 == 0 {
			s.Faults = append(s.Faults, world.Fault{Who: between, At: at + 3*time.Second, Kind: world.Kill})
		} else {
			s.Faults = append(s.Faults, world.Fault{Who: a, At: at + 1950*time.Millisecond, Kind: world.Kill})
		}
		return s
	})
}

// TestOlder has a disk come back as it was a while ago, while the others have all. In half of
// the worlds that was before the member's latest start, which others always notice (F5 in
// package node): it is up again within eight seconds. Otherwise only a leader that still has
// the acknowledged writes does.
func TestOlder(t *testing.T) {
	directed(t, 4, []string{"fault: older", "members that noticed that they lost data"}, func(seed uint64, d drawer) Spec {
		s := Spec{Members: 3, Policy: "leader", Storm: 24 * time.Second, Clients: 3, Pace: 80 * time.Millisecond}
		who := d.member()
		s.Faults = append(s.Faults, world.Fault{Who: who, At: 3 * time.Second, Kind: world.Older, For: 10*time.Second + d.span(4*time.Second)})
		if seed%2 == 0 {
			s.Faults = append(s.Faults, world.Fault{Who: who, At: 4 * time.Second, Kind: world.Kill})
		}
		return s
	})
}

// TestSuitors has many clients want the ID of a lease that is not renewed, with requests under
// way all the time.
func TestSuitors(t *testing.T) {
	directed(t, 1, []string{"leases of a wanted ID", "leases found ended"}, func(uint64, drawer) Spec {
		return Spec{Members: 3, Policy: "leader", Storm: 5 * time.Second, Clients: 1, Suitors: 24, Way: 60 * time.Millisecond}
	})
}

// TestRollingUpgrade replaces the members of a cluster in key order, which begin with an older
// version, one after the other. The leader keeps entries to itself as soon as all can read
// that, and a member that cannot would end at the first.
func TestRollingUpgrade(t *testing.T) {
	directed(t, 2, []string{"starts of an older version", "upgrades"}, func(seed uint64, d drawer) Spec {
		s := Spec{
			Members: 3, Policy: "leader/key", Storm: 24 * time.Second, Clients: 6, Pinned: true, Pace: 60 * time.Millisecond,
			Readers: true, Upgraded: true,
		}
		for i, m := range d.Perm(3) {
			s.Faults = append(s.Faults, world.Fault{Who: fmt.Sprintf("m%d", m), At: time.Duration(5+6*i) * time.Second, Kind: world.Restart})
		}
		return s
	})
}

// TestLockers has processes contend for leases, by the engine that ships, that stand still and
// die while members are cut off and die.
func TestLockers(t *testing.T) {
	directed(t, 2, []string{"acquisitions", "takeovers", "loses", "shared", "killed", "periods", "ends of periods", "done in this period"}, func(seed uint64, d drawer) Spec {
		s := Spec{Members: 3, Policy: "leader", Storm: 40 * time.Second, Clients: 1, Lockers: 4}
		for i, at := range []time.Duration{8, 16, 24, 32} {
			f := world.Fault{Who: fmt.Sprintf("m%d", d.IntN(3)), At: at * time.Second, Kind: world.Kill}
			if i%2 == 0 {
				f.Kind, f.For = world.Isolate, 3*time.Second
			}
			s.Faults = append(s.Faults, f)
		}
		return s
	})
}
