package fleaseworld

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// shape are the parts that a world has from the beginning.
type shape struct {
	tmax, eps, delay       time.Duration
	chaos                  time.Duration
	peers, spares, clients int // clients of each host
	names                  int
	shared                 bool
	disks                  bool          // they may fail
	late                   bool          // hosts read lists of members at different times, always
	backups                bool          // states of earlier ends are put back
	setBack                time.Duration // by which all clocks are set back; 0: they are not
	skew                   time.Duration // by which the clock of the first host is ahead, beyond ε; 0: it is not
}

// Kinds of faults, as the plans draw them.
const (
	planned    world.Kind = "planned"     // the peer is closed and started again with its state
	killClient world.Kind = "kill client" //
	moreDelay  world.Kind = "slow"        //
)

// draw draws a world: few kinds of faults, and those often.
func draw(r *rand.Rand) (sh shape, plan []world.Fault) {
	between := func(a, b time.Duration) time.Duration { return a + time.Duration(r.Int64N(int64(b-a))) }
	sh.tmax = between(3*time.Second, 8*time.Second).Truncate(time.Millisecond)
	sh.eps = between(20*time.Millisecond, sh.tmax/12).Truncate(time.Millisecond)
	sh.delay = between(time.Millisecond, sh.tmax/400)
	sh.peers = []int{3, 3, 3, 5, 4}[r.IntN(5)]
	sh.spares = []int{0, 0, 1, 2}[r.IntN(4)]
	sh.clients, sh.names = 1+r.IntN(2), 1+r.IntN(3)
	sh.shared = r.IntN(3) == 0
	sh.chaos = between(8*sh.tmax, 20*sh.tmax)

	someHost := func() string { return fmt.Sprintf("h%d", 1+r.IntN(sh.peers+sh.spares)) }
	someClient := func() string { return fmt.Sprintf("%sc%d", someHost(), 1+r.IntN(sh.clients)) }
	long := func() time.Duration { return between(time.Millisecond, 5*sh.tmax/2) }
	short := func() time.Duration { return between(time.Millisecond, sh.tmax/2) }
	ops := []string{"read", "write", "dial", "accept"}
	kinds := []func() world.Fault{
		func() world.Fault { return world.Fault{Who: someHost(), Kind: world.Kill, For: short()} },
		func() world.Fault { return world.Fault{Who: someHost(), Kind: planned, For: short() / 4} },
		func() world.Fault { return world.Fault{Who: someHost(), Kind: world.Crash, For: long()} },
		func() world.Fault { return world.Fault{Who: someHost(), Kind: world.Freeze, For: long()} },
		func() world.Fault { return world.Fault{Who: someClient(), Kind: world.Freeze, For: short()} },
		func() world.Fault { return world.Fault{Who: someClient(), Kind: world.Freeze, For: long()} },
		func() world.Fault { return world.Fault{Who: someClient(), Kind: world.Freeze, For: long() / 2} },
		func() world.Fault { return world.Fault{Who: someClient(), Kind: killClient, For: 0} },
		func() world.Fault {
			return world.Fault{Who: someHost(), Kind: world.Cut, With: someHost(), For: long()}
		},
		func() world.Fault { return world.Fault{Who: someHost(), Kind: world.Isolate, For: long()} },
		func() world.Fault { return world.Fault{Who: someHost(), Kind: world.Reset} },
		func() world.Fault { return world.Fault{Who: someClient(), Kind: world.Reset} },
		func() world.Fault { return world.Fault{Who: someHost(), Kind: world.HalfOpen} },
		func() world.Fault { return world.Fault{Who: someClient(), Kind: world.HalfOpen} },
		func() world.Fault {
			by := between(sh.eps, 20*sh.eps)
			if r.IntN(2) == 0 {
				by = -by
			}
			return world.Fault{Who: someHost(), Kind: world.ClockJump, For: by}
		},
		func() world.Fault {
			return world.Fault{Who: someHost(), Kind: world.Delay, Seam: world.Network, Op: ops[r.IntN(2)], For: between(1e6, sh.tmax/20), Lasting: long()}
		},
		func() world.Fault {
			return world.Fault{Who: someClient(), Kind: world.Delay, Seam: world.Network, Op: ops[r.IntN(2)], For: between(1e6, sh.tmax/4), Lasting: long()}
		},
		func() world.Fault { return world.Fault{Who: someHost(), Kind: world.Stranger} },
	}
	if sh.spares > 0 {
		kinds = append(kinds, func() world.Fault { return world.Fault{Who: someHost(), Kind: world.Member} })
	}
	chosen := r.Perm(len(kinds))[:2+r.IntN(4)]
	every := between(sh.tmax/6, 2*sh.tmax)
	for at := between(0, 2*sh.tmax); at < sh.chaos; at += between(every/4, 2*every) {
		f := kinds[chosen[r.IntN(len(chosen))]]()
		if f.Seam == "" && f.Kind == world.Freeze && r.IntN(2) == 0 {
			// Between two operations, where moments would hardly ever hit.
			f.Seam, f.Op, f.Nth = world.Network, ops[r.IntN(2)], 1+r.IntN(400)
		} else {
			f.At = at
		}
		plan = append(plan, f)
	}
	for range r.IntN(4) { // a planned restart that is hit while it writes its state, or reads it
		who, op := someHost(), []string{"open", "write", "sync", "rename", "syncdir", "remove"}[r.IntN(6)]
		f := world.Fault{Who: who, Seam: world.Disk, Op: op, Nth: 1 + r.IntN(3)}
		switch r.IntN(5) {
		case 0, 1:
			f.Kind, f.For = world.Crash, short()
		case 2:
			f.Kind, f.For = world.Kill, short()
		case 3:
			f.Kind, sh.disks = world.Fail, true
		case 4:
			f.Kind, f.For, f.Lasting = world.Delay, between(1e6, 2*time.Second), time.Second
		}
		plan = append(plan, f, world.Fault{Who: who, Kind: planned, At: between(2*sh.tmax, sh.chaos), For: short() / 4})
	}
	return sh, plan
}

// drawSkewed draws a world in which a peer is started with a synchronized clock that is wrong by more
// than ε, as on a host that has not heard of NTP yet. The other peers are sound, and can be reached.
func drawSkewed(r *rand.Rand) (sh shape, plan []world.Fault) {
	sh, all := draw(r)
	sh.spares, sh.disks = 0, false
	sh.skew = 3*sh.eps + time.Duration(r.Int64N(int64(30*sh.eps)))
	if r.IntN(2) == 0 {
		sh.skew = -sh.skew
	}
	for _, f := range all {
		switch f.Kind {
		case killClient, world.Reset, world.Stranger:
			plan = append(plan, f)
		}
	}
	return sh, plan
}

// drawRestarts draws a world in which a peer is cut off and another one is killed and started again at
// once, in turns. Two of three that know nothing of a lease would be a majority.
func drawRestarts(r *rand.Rand) (sh shape, plan []world.Fault) {
	sh, _ = draw(r)
	sh.peers, sh.spares, sh.names, sh.shared, sh.disks = 3, 0, 1, false, false
	for at := sh.tmax; at < sh.chaos; at += time.Duration(r.Int64N(int64(sh.tmax))) {
		out := r.IntN(3)
		other := (out + 1 + r.IntN(2)) % 3
		long := sh.tmax/8 + time.Duration(r.Int64N(int64(sh.tmax/2)))
		plan = append(plan,
			world.Fault{Who: fmt.Sprintf("h%d", 1+out), At: at, Kind: world.Isolate, For: long},
			world.Fault{Who: fmt.Sprintf("h%d", 1+other), At: at + long - time.Millisecond, Kind: world.Kill, For: time.Millisecond})
	}
	return sh, plan
}

// drawChanges draws a world in which the members change all the time, hosts read the lists at different times, and peers are cut off
// and killed meanwhile.
func drawChanges(r *rand.Rand) (sh shape, plan []world.Fault) {
	sh, _ = draw(r)
	sh.peers, sh.spares, sh.names, sh.shared, sh.disks, sh.late = 3+2*r.IntN(2), 4, 1, false, false, true
	sh.chaos = 20 * sh.tmax
	some := func() string { return fmt.Sprintf("h%d", 1+r.IntN(sh.peers+sh.spares)) }
	for at := sh.tmax; at < sh.chaos; at += time.Duration(r.Int64N(int64(sh.tmax))) {
		plan = append(plan, world.Fault{Who: some(), At: at, Kind: world.Member})
		f := world.Fault{Who: some(), At: at + time.Duration(r.Int64N(int64(sh.tmax))), Kind: world.Isolate, For: time.Duration(r.Int64N(int64(2 * sh.tmax)))}
		if r.IntN(3) == 0 {
			f.Kind, f.For = []world.Kind{world.Kill, planned}[r.IntN(2)], time.Duration(r.Int64N(int64(sh.tmax/8)))
		}
		if r.IntN(2) == 0 {
			plan = append(plan, f)
		}
	}
	return sh, plan
}

// drawSetBack draws a world in which all clocks are set back and the peers are started anew, in turns.
func drawSetBack(r *rand.Rand) (sh shape, plan []world.Fault) {
	sh, _ = draw(r)
	sh.peers, sh.spares, sh.names, sh.shared, sh.disks = 3, 0, 1, false, false
	sh.setBack = time.Minute + time.Duration(r.Int64N(int64(time.Hour)))
	sh.chaos = 16 * sh.tmax
	for at := sh.tmax; at < sh.chaos/3; at += time.Duration(r.Int64N(int64(sh.tmax))) {
		plan = append(plan, world.Fault{Who: fmt.Sprintf("h%d", 1+r.IntN(3)), At: at, Kind: world.Isolate, For: time.Duration(r.Int64N(int64(sh.tmax)))})
	}
	return sh, plan
}

// drawBackups draws a world in which peers start with states of earlier ends.
func drawBackups(r *rand.Rand) (sh shape, plan []world.Fault) {
	sh, _ = draw(r)
	sh.peers, sh.spares, sh.names, sh.shared, sh.disks, sh.backups = 3, 0, 6, false, false, true
	sh.chaos = 10*sh.tmax + 2*time.Minute
	return sh, nil
}
