package storageworld

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
)

// plan is a world's shape, drawn from its seed.
type plan struct {
	seed    uint64
	header  register.Header
	dirs    int
	procs   int
	paired  bool // the first two processes are on one host, with its clock
	state   bool // processes of a host share their sightings
	workers int  // claims that a process pursues at a time
	names   int
	length  time.Duration // with faults

	records bool // holders set records

	lifelines bool          // processes have lifelines
	network   bool          // the file system is a network's
	copied    time.Duration // from one time that the lifelines are replaced by copies to the next; 0: never

	shared float64 // the part of claims that may be shared
	idle   float64 // the part of pauses that are longer than the store's Quiet
	onlook float64 // the part of turns that only look
	reopen float64 // the part of turns at which a process closes and opens anew
	kill   float64 // ... is killed
	breaks float64 // ... breaks others' leases

	calls   string        // which calls go wrong
	stalls  float64       // the part of them before which the process stands still
	slows   float64       // the part of them that are slow, and nothing else is
	longest time.Duration // of both
	errs    float64       // the part of them that fail
	deaths  float64       // the part of them before which the process is killed
	crashes time.Duration // from one crash of the storage to the next, about; 0: none
	outages time.Duration // from one outage of a directory to the next; 0: none
	older   bool          // an outage may end with an older copy put back
}

// allCalls are the calls that a plan may choose.
var allCalls = []string{"open", "create", "list", "listing", "stat", "link", "rename", "remove", "syncdir", "read", "write", "block", "written", "sync", "lock"}

func draw(seed uint64) plan {
	r := world.Rand(seed, "plan")
	p := plan{
		seed: seed, dirs: 1, procs: 2 + r.IntN(3), workers: 1 + r.IntN(2), names: 1 + r.IntN(2),
		length: 4 * time.Minute, onlook: 0.15, reopen: 0.05,
	}
	if r.IntN(3) == 0 {
		p.dirs = 3
	}
	p.header = register.Header{
		Set: machine.ID{1}, Of: p.dirs, Term: 2 * time.Second, Delay: 20 * time.Millisecond, Drift: r.IntN(register.MaxDrift / 2),
	}
	if r.IntN(3) == 0 {
		p.shared = 0.5
	}
	if r.IntN(3) > 0 {
		p.idle = 0.3
	}
	p.longest = []time.Duration{p.header.Term / 4, p.header.Quiet() * 2, p.header.Quiet() * 5}[r.IntN(3)]
	for _, kind := range r.Perm(7)[:1+r.IntN(2)] {
		switch kind {
		case 0, 1:
			p.calls = allCalls[r.IntN(len(allCalls))]
			p.stalls = often(r)
		case 2:
			p.calls = allCalls[r.IntN(len(allCalls))]
			p.slows = often(r)
		case 3:
			p.calls = allCalls[r.IntN(len(allCalls))]
			p.errs = often(r)
		case 4:
			p.kill = 0.1
		case 5:
			p.crashes = time.Minute
		case 6:
			p.calls = allCalls[r.IntN(len(allCalls))]
			p.deaths = often(r) / 4
		}
	}
	if world.Rand(seed, "many").IntN(10) == 0 { // files of handles become larger
		p.procs, p.workers, p.names, p.length = 2, 5, 12, time.Minute
	}
	host := world.Rand(seed, "hosts")
	p.paired, p.state = host.IntN(2) == 0, host.IntN(2) == 0
	if p.dirs > 1 && r.IntN(2) == 0 {
		p.outages, p.older = 40*time.Second, r.IntN(2) == 0
	}
	// A store that went back may have the only copy that counts of what is no lease.
	p.records = world.Rand(seed, "records").IntN(2) == 0 && !p.older
	if !p.records && world.Rand(seed, "breaks").IntN(2) == 0 { // a holder that is broken may set its record beside the next
		p.breaks = 0.1
	}
	lines := world.Rand(seed, "lifelines")
	p.lifelines = lines.IntN(3) > 0
	p.network = lines.IntN(4) == 0
	if p.lifelines && lines.IntN(3) == 0 {
		p.copied = 5 * time.Second
	}
	return p
}

func often(r *rand.Rand) float64 { return []float64{0.01, 0.05, 0.2}[r.IntN(3)] }

func (p plan) String() string {
	var parts []string
	add := func(yes bool, format string, args ...any) {
		if yes {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(true, "%d directories, %d processes of %d claims, %d names, drift %d ppm", p.dirs, p.procs, p.workers, p.names, p.header.Drift)
	add(p.paired, "two on one host")
	add(p.state, "witnesses are kept")
	add(p.stalls > 0, "%.0f %% of %s stall up to %v", 100*p.stalls, p.calls, p.longest)
	add(p.slows > 0, "%.0f %% of %s slow up to %v", 100*p.slows, p.calls, p.longest)
	add(p.errs > 0, "%.0f %% of %s fail", 100*p.errs, p.calls)
	add(p.deaths > 0, "killed before %.1f %% of %s", 100*p.deaths, p.calls)
	add(p.kill > 0, "kills")
	add(p.breaks > 0, "breaks by force")
	add(p.crashes > 0, "crashes")
	add(p.outages > 0, "outages, older copies %v", p.older)
	add(p.idle > 0, "long pauses")
	add(p.shared > 0, "shared")
	add(p.records, "records")
	add(p.lifelines, "lifelines")
	add(p.network, "a network's file system")
	add(p.copied > 0, "lifelines are replaced")
	return strings.Join(parts, "; ")
}
