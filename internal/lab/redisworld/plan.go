package redisworld

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/holders"
	"github.com/tenure-lease/tenure/internal/machine"
)

// plan is a world's shape, drawn from its seed.
type plan struct {
	seed      uint64
	header    register.Header
	syncs     []time.Duration // of each server's log
	mute      bool            // servers that keep all do not reveal their identity
	procs     int
	habits    holders.Habits
	remembers bool          // witnesses outlive processes
	length    time.Duration // with faults
	slow      time.Duration // the longest way of a byte
	longest   time.Duration // of stalls
	faults    []world.Fault
}

// Faults of servers, beside those that package world knows.
const (
	takeover world.Kind = "takeover" // a replica answers that lacks the last moments
	emptied  world.Kind = "emptied"  // FLUSHALL
	full     world.Kind = "full"     // its memory is, and nothing is evicted
	unsaved  world.Kind = "unsaved"  // its disk fails, so that it refuses to write
	loading  world.Kind = "loading"  // it reads its log, and answers nothing else
)

func draw(seed uint64) plan {
	r := world.Rand(seed, "plan")
	p := plan{
		seed: seed, procs: 2 + r.IntN(3), length: 90 * time.Second,
		slow:      []time.Duration{time.Millisecond, 4 * time.Millisecond}[r.IntN(2)],
		remembers: r.IntN(3) == 0, mute: r.IntN(4) == 0,
	}
	n := 1
	if r.IntN(3) > 0 {
		n = 3
	}
	p.header = register.Header{
		Set: machine.ID{1}, Of: n, Term: 2 * time.Second, Delay: 20 * time.Millisecond, Drift: r.IntN(register.MaxDrift / 2),
	}
	for range n {
		p.syncs = append(p.syncs, []time.Duration{0, 0, time.Second, 10 * time.Second, forever}[r.IntN(5)])
	}
	p.habits = holders.Habits{
		Workers: 1 + r.IntN(3), Names: 1 + r.IntN(2), Term: p.header.Term, Quiet: p.header.Quiet(),
		Onlook: 0.15, Reopen: 0.1, Pause: time.Second,
	}
	if r.IntN(3) == 0 {
		p.habits.Shared = 0.5
	}
	if r.IntN(3) == 0 {
		p.habits.Idle = 0.3
	}
	if r.IntN(3) == 0 {
		p.habits.Kill = 0.1
	}
	p.longest = []time.Duration{p.header.Term / 4, p.header.Quiet(), 3 * p.header.Quiet()}[r.IntN(3)]
	p.drawFaults(r)
	p.habits.Records = world.Rand(seed, "records").IntN(2) == 0 && !p.loses()
	return p
}

// loses reports whether servers lose what they acknowledged. A record may be lost with it, for unlike a
// lease it does not end in the time for which such a server is silent. The end of its process is
// enough if a server does not sync each write.
func (p *plan) loses() bool {
	return slices.ContainsFunc(p.faults, func(f world.Fault) bool {
		forgets := slices.Contains(p.forgetful(), f.Who)
		return f.Kind == world.Crash || f.Kind == takeover || f.Kind == emptied || f.Kind == world.Kill && forgets
	})
}

// forgetful names the servers that do not sync each write.
func (p *plan) forgetful() (names []string) {
	for i, sync := range p.syncs {
		if sync > 0 {
			names = append(names, fmt.Sprint("s", i))
		}
	}
	return names
}

// drawFaults draws few kinds of faults, and those often.
func (p *plan) drawFaults(r *rand.Rand) {
	server := func() string { return fmt.Sprint("s", r.IntN(p.header.Of)) }
	proc := func() string { return fmt.Sprint("p", r.IntN(p.procs)) }
	either := func() string {
		if r.IntN(2) == 0 {
			return server()
		}
		return proc()
	}
	long := func() time.Duration { return time.Duration(r.Int64N(int64(p.longest))) }
	down := func() time.Duration { return time.Duration(r.Int64N(int64(3 * time.Second))) }
	ops := []string{"read", "write", "dial", ""}
	kinds := []func() world.Fault{
		func() world.Fault { return world.Fault{Who: server(), Kind: world.Kill, For: down()} },
		func() world.Fault { return world.Fault{Who: server(), Kind: world.Kill, For: down()} },
		func() world.Fault { return world.Fault{Who: server(), Kind: world.Crash, For: down()} },
		func() world.Fault { return world.Fault{Who: server(), Kind: takeover, For: down()} },
		func() world.Fault { return world.Fault{Who: server(), Kind: emptied} },
		func() world.Fault {
			return world.Fault{Who: server(), Kind: []world.Kind{full, unsaved, loading}[r.IntN(3)], For: long()}
		},
		func() world.Fault { return world.Fault{Who: either(), Kind: world.Freeze, For: long()} },
		func() world.Fault { // between two calls
			return world.Fault{Who: proc(), Seam: world.Network, Op: ops[r.IntN(4)], Nth: 1 + r.IntN(1500), Kind: world.Freeze, For: long()}
		},
		func() world.Fault {
			return world.Fault{Who: proc(), Seam: world.Network, Op: ops[r.IntN(4)], Nth: 1 + r.IntN(1500), Kind: world.Kill}
		},
		func() world.Fault {
			return world.Fault{Who: server(), Seam: world.Network, Op: ops[r.IntN(2)], Nth: 1 + r.IntN(1500), Kind: world.Kill, For: down()}
		},
		func() world.Fault {
			return world.Fault{Who: server(), Seam: world.Network, Op: ops[r.IntN(2)], Nth: 1 + r.IntN(1500), Kind: world.Freeze, For: long()}
		},
		func() world.Fault { return world.Fault{Who: proc(), Kind: world.Cut, With: server(), For: long()} },
		func() world.Fault { return world.Fault{Who: server(), Kind: world.Cut, With: proc(), For: long()} },
		func() world.Fault { return world.Fault{Who: either(), Kind: world.Isolate, For: long()} },
		func() world.Fault { return world.Fault{Who: either(), Kind: world.Reset} },
		func() world.Fault { return world.Fault{Who: either(), Kind: world.HalfOpen} },
		func() world.Fault {
			return world.Fault{Who: either(), Seam: world.Network, Op: ops[r.IntN(2)], Kind: world.Delay, For: 5*time.Millisecond + long()/8, Lasting: long()}
		},
	}
	for _, kind := range r.Perm(len(kinds))[:2+r.IntN(3)] {
		every := []time.Duration{3 * time.Second, 10 * time.Second}[r.IntN(2)]
		for at := time.Second; at < p.length; at += every/2 + time.Duration(r.Int64N(int64(every))) {
			f := kinds[kind]()
			if f.Nth == 0 {
				f.At = at
			}
			p.faults = append(p.faults, f)
		}
	}
}

func (p plan) String() string {
	var kinds []string
	for _, f := range p.faults {
		kinds = append(kinds, string(f.Kind))
	}
	return fmt.Sprintf("%d servers that sync every %v, mute %v, %d processes, %+v, drift %d ppm, ways of %v, stalls of %v; %s",
		p.header.Of, p.syncs, p.mute, p.procs, p.habits, p.header.Drift, p.slow, p.longest, strings.Join(kinds, " "))
}
