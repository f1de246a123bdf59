package readtorture

import (
	"context"
	"errors"
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
	insides  bool // the plan's attacks on insides are needed
	changes  bool // and its changes of the membership
}

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
	{name: "lease-r23-removed-replica-forgotten", policies: "all", changes: true},
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

// TestMutantsAreFound tortures each and wants violations.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() || !server.Has(server.Tenure) {
		t.Skip("each is built and run: the judges' own tests run")
	}
	for i, m := range mutants {
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
			for seed := uint64(13); seed < 17; seed++ {
				p := NewPlan(seed, m.policies, 3, 30*time.Second)
				p.Binary, p.Hooked = program, m.insides
				if !m.changes {
					p.Changes = nil
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
