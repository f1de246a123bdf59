package readtorture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

// broken is a member that breaks a rule of read leases.
type broken struct {
	name     string        // one of package replicasim's mutants, or the rule that is broken
	edits    []mutant.Edit // how, if it is none of those
	policies string
	insides  bool        // the plan's attacks on insides are needed
	script   func(*Plan) // makes a plan in which the rule is needed often
}

var mutantFlag = flag.Int("mutant", -1, "try this planted bug alone, with -short, too")

// mutants are for the whole of this package to find. Package internal/lab/replicasim has one for
// each rule; here are those that take a driver, or that real processes find soon.
var mutants = []broken{
	{name: "a member reads on when its lease has ended", edits: []mutant.Edit{
		{Path: "internal/member/node/reads.go", Before: "now < until", After: "now > 0"},
	}, policies: "all"},
	{name: "a reader takes the state last", edits: []mutant.Edit{
		{Path: "internal/member/node/readview.go", Before: "!byKey(order) {\n", After: "!byKey(order) {\n\t\tview := n.State()\n"},
		{Path: "internal/member/node/readview.go", Before: "if view := n.State(); n.order", After: "if n.order"},
	}, policies: "all", insides: true},
	{name: "a member reads what its log has, not what it has applied", edits: []mutant.Edit{
		{Path: "internal/core/replica/readrelease.go", Before: "now.Index = at.last\n", After: "now.Index = rl.released\n"},
	}, policies: "all"},
	{name: "a range is read by a holder of all of it", edits: []mutant.Edit{
		{Path: "internal/core/replica/keyorder.go", Before: "if every, _ := c.setting", After: "if _, every := c.setting"},
	}, policies: "static/key"},
	{name: "lease-r1-holders-ignored", policies: "all"},
	{name: "lease-r26-keys-one-by-one", policies: "static/key"},
	{name: "lease-r23-removed-replica-forgotten", policies: "all", script: removals},
	{name: "sent-before-durable", policies: "all", insides: true},
}

// read gives the rule, and the edits that break it.
func (m broken) read() (rule string, edits []mutant.Edit, err error) {
	rule, edits = m.name, m.edits
	if len(edits) == 0 {
		rule, edits, err = mutant.Edits(filepath.Join(module, "internal/lab/replicasim/testdata/mutants", m.name+".txt"))
	}
	if m.insides {
		edits = hooked(edits)
	}
	return rule, edits, err
}

func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		_, edits, err := m.read()
		if err == nil {
			_, err = plant(t.TempDir(), edits)
		}
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// longLease is a time for which a removed member reads on that is long beside the time that its removal takes.
const longLease = 400 * ms

// removals has a follower removed again and again that reads under a long lease, and is cut off from all that could tell it. The others
// write meanwhile, which has to wait for it, and its clients go on to ask it. Nothing else is done, so the leader stays and removes at once.
//
// The rule is needed by each removal before which no write comes once the follower is cut off: such a write, and all behind it, waits until
// the follower's lease has run out. So the removal follows at once, and there are several in a run.
func removals(p *Plan) {
	long := func() bool {
		for member := range p.Members {
			for life := range 2 {
				if p.ttl(member, life) < longLease {
					return false
				}
			}
		}
		return true
	}
	for p.Seed *= 10_000; !long(); { // seeds that are neighbours have plans of their own
		p.Seed++
	}
	p.Processes, p.Links, p.Insides, p.Changes = nil, nil, nil, nil
	for sum := time.Duration(0); sum < p.Time; sum += 4 * time.Second {
		p.Changes = append(p.Changes, change{Wait: 500 * ms, Leaving: unaware, Victim: 1, Goes: 1500 * ms})
	}
}

// Every removal of the script is of a follower with a long lease that is not told.
func TestRemovals(t *testing.T) {
	for seed := uint64(13); seed < 17; seed++ {
		p := NewPlan(seed, "all", 3, 30*time.Second)
		removals(&p)
		if len(p.Changes) != 8 || len(p.Processes)+len(p.Links)+len(p.Insides) > 0 {
			t.Errorf("seed %d: %d changes, and %d other attacks", seed, len(p.Changes), len(p.Processes)+len(p.Links)+len(p.Insides))
		}
		for _, c := range p.Changes {
			if c.Leaving != unaware || c.Victim == 0 || c.Goes < time.Second {
				t.Errorf("seed %d: %v", seed, c)
			}
		}
		for member := range 3 {
			if ttl := p.ttl(member, 0); ttl < longLease {
				t.Errorf("seed %d: leases of %v", seed, ttl)
			}
		}
	}
}

// TestMutantsAreFound tortures each and wants violations.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() && *mutantFlag < 0 || !server.Has(server.Tenure) {
		t.Skip("each is built and run: the judges' own tests run")
	}
	for i, m := range mutants {
		if *mutantFlag >= 0 && i != *mutantFlag {
			continue
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rule, edits, err := m.read()
			if err != nil {
				t.Fatal(err)
			}
			t.Log(rule)
			program, err := build(t.TempDir(), edits)
			if err != nil {
				t.Fatal(err)
			}
			seeds := uint64(4)
			if m.script != nil {
				seeds = 10 // about one removal in a dozen needed the rule; there are 80
			}
			for seed := uint64(13); seed < 13+seeds; seed++ {
				p := NewPlan(seed, m.policies, 3, 30*time.Second)
				p.Binary, p.Hooked = program, m.insides
				p.Changes = nil
				if m.script != nil {
					m.script(&p)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				out, err := Run(ctx, p, t.TempDir(), func(string) {})
				cancel()
				if errors.Is(err, errEnded) {
					t.Logf("seed %d: %.1000v", seed, err)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("seed %d: %v", seed, out)
				if n := len(out.Violations); n > 0 {
					t.Logf("first %v", out.Violations[0])
					return
				}
			}
			t.Error("it was not found")
		})
	}
}

// TestClocksAreFound has one member's clock slow and those of the others fast, and cuts it
// off again and again. Within the rates that read leases allow for nothing goes wrong, and
// far beyond them the judges have to see it.
func TestClocksAreFound(t *testing.T) {
	if testing.Short() || !server.Has(server.Tenure) {
		t.Skip("it is built and run: the clock's own tests run")
	}
	program, err := Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rates []int
		found bool
	}{{[]int{-9000, 9000, 9000}, false}, {[]int{-900_000, 900_000, 900_000}, true}} {
		p := NewPlan(1, "all", 3, 30*time.Second)
		for p.ttl(1, 0) < 400*ms || p.ttl(2, 0) < 400*ms { // they are what is promised to the slow one
			p = NewPlan(p.Seed+1, "all", 3, 30*time.Second)
		}
		p.Binary, p.Hooked, p.Rates = program, true, tt.rates
		p.Processes, p.Insides, p.Changes, p.Links = nil, nil, nil, nil
		for i := range 20 { // it does not lead: its election timeout is the longest
			p.Links = append(p.Links, linkAttack{Wait: 500 * ms, Fault: alone, Victim: victim(1 + i%2), Last: time.Second})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		out, err := Run(ctx, p, t.TempDir(), func(string) {})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("rates %v: %v", tt.rates, out)
		if found := len(out.Violations) > 0; found != tt.found {
			t.Errorf("rates %v: violations %t, want %t", tt.rates, found, tt.found)
		}
	}
}
