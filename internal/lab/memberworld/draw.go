package memberworld

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// storm is how long clients work while faults happen.
const storm = 30 * time.Second

// draw draws a world. As in a swarm each has few kinds of faults, and those often.
func draw(seed uint64) Spec {
	r := world.Rand(seed, "spec")
	policies := []quorumlease.Policy{quorumlease.Off, quorumlease.Leader, quorumlease.All, quorumlease.AllByKey, quorumlease.LeaderByKey}
	s := Spec{
		Members: 3, Storm: storm, Clients: 3,
		Policy: string(policies[r.IntN(len(policies))]),
	}
	if r.IntN(6) == 0 {
		s.Members = 5
	}
	if r.IntN(5) == 0 {
		s.Suitors = 2
	}
	s.Pinned = r.IntN(3) == 0
	if r.IntN(4) == 0 {
		s.Pace = 50 * time.Millisecond
	}
	if r.IntN(4) == 0 {
		s.Way = 40 * time.Millisecond
	}
	s.Readers = r.IntN(3) == 0
	if r.IntN(3) == 0 {
		s.Far = 40 * time.Millisecond
	}
	if r.IntN(3) == 0 {
		s.Lossy = 50 + r.IntN(200)
	}
	if s.Readers || s.Pace > 0 {
		s.Clients = 5
	}
	d := drawer{r, &s}
	kinds := []func(){
		d.kills, d.crashes, d.slow, d.hung, d.failing, d.full, d.cuts, d.resets, d.halfOpen,
		d.freezes, d.stalls, d.restarts, d.clocks, d.strangers, d.members,
	}
	alone := false
	switch r.IntN(8) {
	case 0: // with nothing else: no member can know that its own disk is old
		alone = true
		d.older()
		kinds = []func(){d.slow, d.resets}
	case 1:
		d.emptied()
	case 2:
		d.wild()
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds[:min(len(kinds), 1+r.IntN(3))] {
		for range 2 + r.IntN(4) {
			kind()
		}
	}
	s.Compacts = world.Rand(seed, "whether to compact").IntN(3) == 0
	if !s.Wild && world.Rand(seed, "whether to lock").IntN(2) == 0 {
		s.Lockers = 3
	}
	if world.Rand(seed, "whether to transfer").IntN(2) == 0 {
		s.Accountants = 2
	}
	if !alone {
		d.demands(seed)
	}
	if r := world.Rand(seed, "whether to upgrade"); r.IntN(4) == 0 && !s.Wild && !alone {
		s.upgrade(r)
	}
	// An older version knows no users, and lockers log in to nothing.
	s.Users = !s.Upgraded && s.Lockers == 0 && world.Rand(seed, "whether there are users").IntN(2) == 0
	s.Forced = !s.Upgraded && world.Rand(seed, "whether to begin anew").IntN(3) == 0
	return s
}

// upgrade has members replaced by newer ones, one after the other, as an operator does.
func (s *Spec) upgrade(r *rand.Rand) {
	s.Upgraded = true
	if r.IntN(2) == 0 { // where versions differ most
		s.Policy = string(quorumlease.LeaderByKey)
	}
	at := 4 * time.Second
	for _, m := range r.Perm(s.Members) {
		s.Faults = append(s.Faults, world.Fault{Who: fmt.Sprintf("m%d", m), At: at, Kind: world.Restart})
		at += time.Second + time.Duration(r.Int64N(int64(5*time.Second)))
	}
}

type drawer struct {
	*rand.Rand
	s *Spec
}

func (d drawer) member() string { return fmt.Sprintf("m%d", d.IntN(d.s.Members)) }

// moment is some time in the storm, when the cluster works.
func (d drawer) moment() time.Duration { return 2*time.Second + d.span(storm-4*time.Second) }

func (d drawer) span(most time.Duration) time.Duration { return time.Duration(d.Int64N(int64(most))) }

// nth is small more often than large.
func (d drawer) nth(most float64) int { return int(math.Exp(d.Float64() * math.Log(most))) }

func (d drawer) add(f world.Fault) { d.s.Faults = append(d.s.Faults, f) }

// anywhere binds a fault to an operation, or to a moment.
func (d drawer) anywhere(f world.Fault) {
	f.Who = d.member()
	switch d.IntN(4) {
	case 0:
		f.At = d.moment()
	case 1:
		f.Seam, f.Op, f.Nth = world.Network, []string{"write", "read"}[d.IntN(2)], d.nth(2000)
	default:
		f.Seam = world.Disk
		f.Op, f.Nth = d.diskCall()
	}
	d.add(f)
}

// diskCall is a call of a disk, and how many of them go before. Some are made far less often.
func (d drawer) diskCall() (op string, nth int) {
	op = []string{"sync", "write", "syncdir", "rename", "remove", "truncate", "open", "preallocate"}[d.IntN(8)]
	if op == "sync" || op == "write" {
		return op, d.nth(600)
	}
	return op, d.nth(20)
}

func (d drawer) kills() { d.anywhere(world.Fault{Kind: world.Kill}) }
func (d drawer) crashes() {
	d.anywhere(world.Fault{Kind: world.Crash, With: []string{"", "", everywhere}[d.IntN(3)]})
}
func (d drawer) restarts() { d.anywhere(world.Fault{Kind: world.Restart}) }

// freezes are for up to 20 s: longer than any lease.
func (d drawer) freezes() {
	f := world.Fault{Kind: world.Freeze, For: d.span(3 * time.Second)}
	if d.IntN(3) == 0 {
		f.For = d.span(20 * time.Second)
	}
	if d.IntN(3) == 0 {
		d.add(world.Fault{Who: d.member(), Seam: world.Clock, Op: "now", Nth: d.nth(5000), Kind: f.Kind, For: f.For})
		return
	}
	d.anywhere(f)
}

// stalls are threads that wait between reading a clock and going by it, while others run.
func (d drawer) stalls() {
	for range 4 {
		d.add(world.Fault{Who: d.member(), Seam: world.Clock, Op: "now", Nth: d.nth(8000), Kind: world.Delay, For: d.span(2 * time.Second)})
	}
}

func (d drawer) slow() {
	op, _ := d.diskCall()
	d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.Delay, Seam: world.Disk, Op: op,
		For: d.span(100*time.Millisecond) + time.Millisecond, Lasting: d.span(8 * time.Second)})
}

func (d drawer) hung() {
	op, nth := d.diskCall()
	d.add(world.Fault{Who: d.member(), Seam: world.Disk, Op: op, Nth: nth, Kind: world.Hang, For: d.span(6*time.Second) + time.Second})
}

func (d drawer) failing() {
	d.add(world.Fault{Who: d.member(), Seam: world.Disk, Op: []string{"sync", "write", "syncdir", "read", "rename", "remove"}[d.IntN(6)],
		Nth: d.nth(100), Kind: world.Fail, For: time.Duration(d.IntN(2)) * d.span(3*time.Second)})
}

func (d drawer) full() {
	d.add(world.Fault{Who: d.member(), At: d.moment(), Seam: world.Disk, Kind: world.NoSpace, For: d.span(5*time.Second) + time.Second})
}

func (d drawer) cuts() {
	from, to := d.member(), d.member()
	f := world.Fault{Who: from, With: to, At: d.moment(), Kind: world.Cut, For: d.span(12*time.Second) + 100*time.Millisecond}
	if from == to {
		f.Kind, f.With = world.Isolate, []string{"", fromMembers}[d.IntN(2)]
	}
	d.add(f)
}

func (d drawer) resets() {
	f := world.Fault{Who: d.member(), With: d.member(), At: d.moment(), Kind: world.Reset}
	if f.Who == f.With {
		f.With = ""
	}
	d.add(f)
}

func (d drawer) halfOpen() { d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.HalfOpen}) }

// clocks are within what leases allow for, and times of day are whatever they like.
func (d drawer) clocks() {
	if d.IntN(2) == 0 {
		d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.ClockJump, With: (d.span(2*time.Hour) - time.Hour).String()})
		return
	}
	rate := 1 + 0.008*(d.Float64()-0.5)
	d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.ClockRate, With: fmt.Sprint(rate), For: d.span(20 * time.Second)})
}

// wild are clocks of virtual machines that are frozen, and of rates that nothing allows
// for. Without read leases nothing but the lengths of clients' leases rests on them.
func (d drawer) wild() {
	d.s.Wild, d.s.Policy = true, string(quorumlease.Off)
	for range 1 + d.IntN(3) {
		d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.ClockHalt, For: d.span(10 * time.Second)})
		d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.ClockRate, With: fmt.Sprint(0.5 + d.Float64()), For: d.span(10 * time.Second)})
	}
}

func (d drawer) strangers() {
	d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.Stranger, With: strangers[d.IntN(len(strangers))]})
}

// members come and go.
func (d drawer) members() {
	if d.s.Spares == 0 {
		d.s.Spares = 1
		spare := fmt.Sprintf("m%d", d.s.Members)
		at := d.moment() / 2
		d.add(world.Fault{Who: spare, At: at, Kind: world.Member, With: "add"})
		d.add(world.Fault{Who: spare, At: at + d.span(6*time.Second), Kind: world.Member, With: "promote"})
		if d.IntN(2) == 0 {
			d.add(world.Fault{Who: spare, At: at + 8*time.Second + d.span(6*time.Second), Kind: world.Member, With: "remove"})
		}
		return
	}
	d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.Member, With: []string{"replace", "replace", "lead"}[d.IntN(3)]})
}

// demands are what operators and clients want of members beside everything else, drawn apart from it.
func (d drawer) demands(seed uint64) {
	d.Rand = world.Rand(seed, "demands")
	if d.IntN(4) == 0 && !d.s.Wild {
		d.policies()
	}
	if d.IntN(8) == 0 {
		d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.Member, With: "move"})
	}
	if d.IntN(6) == 0 {
		d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.Stranger, With: asksTooMuch})
	}
}

// policies of read leases follow one another, of all that there are.
func (d drawer) policies() {
	for range 2 + d.IntN(3) {
		policy := quorumlease.Policies[d.IntN(len(quorumlease.Policies))]
		d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.Member, With: string(policy)})
	}
}

// older is a disk that comes back as it was: of one member, while the others have all.
func (d drawer) older() {
	d.add(world.Fault{Who: d.member(), At: 3*time.Second + d.span(10*time.Second), Kind: world.Older, For: d.span(10 * time.Second)})
}

// emptied is a disk that comes back empty, whatever else happens.
func (d drawer) emptied() {
	d.add(world.Fault{Who: d.member(), At: d.moment(), Kind: world.Empty})
}

// apart draws three members.
func (d drawer) apart() (a, b, c string) {
	order := d.Perm(3)
	return fmt.Sprintf("m%d", order[0]), fmt.Sprintf("m%d", order[1]), fmt.Sprintf("m%d", order[2])
}
