package readtorture

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/sim/mutant"
)

// mutants are members that break a rule of read leases, for the whole of this package
// to find. Package sim/replicasim has one for each rule; here are those that take a
// driver, or that real processes find soon.
var mutants = []struct {
	name     string // one of package replicasim's, or what rule the edits break
	edits    []mutant.Edit
	policies string
	insides  bool // the plan's attacks on insides are needed
	changes  bool // and its changes of the membership
}{
	{"a member reads on when its lease has ended", []mutant.Edit{
		{Path: "node/reads.go", Before: "rs.clock() < l.Until", After: "rs.clock() > 0"},
	}, "all", false, false},
	{"a reader looks at its lease first, and then at the clock", []mutant.Edit{
		{Path: "node/reads.go", Before: "ok bool) {\n\tif l :=", After: "ok bool) {\n\tnow := rs.clock()\n\tif l :="},
		{Path: "node/reads.go", Before: "rs.clock() < l.Until", After: "now < l.Until"},
	}, "all", true, false},
	{"a member reads what its log has, not what it has applied", []mutant.Edit{
		{Path: "replica/readrelease.go", Before: "now.Index = r.last\n", After: "now.Index = rl.released\n"},
	}, "all", false, false},
	{"a range is read by who holds all of it", []mutant.Edit{
		{Path: "replica/keyorder.go", Before: "if every, _ := c.setting", After: "if _, every := c.setting"},
	}, "static/key", false, false},
	{"lease-r1-holders-ignored", nil, "all", false, false},
	{"lease-r13-older-holders-forgotten", nil, "static/key", false, false},
	{"lease-r26-keys-one-by-one", nil, "static/key", false, false},
	{"lease-r23-removed-replica-forgotten", nil, "all", false, true},
	{"lease-r14-forgets", nil, "all", false, false},
	{"sent-before-durable", nil, "all", true, false},
}

// edited are the edits of a mutant, and what rule it breaks.
func edited(t *testing.T, name string, edits []mutant.Edit) (string, []mutant.Edit) {
	t.Helper()
	if len(edits) > 0 {
		return name, edits
	}
	rule, edits, err := mutant.Edits(filepath.Join(module, "sim/replicasim/testdata/mutants", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return rule, edits
}

func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		_, edits := edited(t, m.name, m.edits)
		if _, err := plant(t.TempDir(), hooked(edits)); err != nil {
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
			rule, edits := edited(t, m.name, m.edits)
			t.Log(rule)
			if m.insides {
				edits = hooked(edits)
			}
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
