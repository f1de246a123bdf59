package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const tablePath = "testdata/mutants/README.md"

const tableHead = `# Mutants

A mutant breaks one rule of the product on purpose; the test named beside it must
fail. A test that cannot fail proves nothing, and a rule without a mutant may be
a rule that nobody checks.

    go test ./sim -run TestMutants -mutants=all        # all of them, about 3 s each
    go test ./sim -run TestMutants -mutants=forward-twice -v
    go test ./sim -run TestMutants                     # a sample; all must still apply

A file's first line is the rule, the second the test, then come edits:

    replica/leases.go
    <<<<
    what stands there, exactly once
    ====
    what shall stand there instead
    >>>>

The newline before a marker belongs to the marker, so an edit may begin and end
within a line. Edits are applied at build time by -overlay and never touch a
source file; one that no longer applies is a failure.

Every mutant is caught by one directed script of a few milliseconds
(` + "`go test ./sim -run TestScripts/NAME`" + `). This table is written by
` + "`go test ./sim -run TestMutantTable -rewrite`" + `.

| rule | mutant | caught by |
|---|---|---|
`

func TestMutantTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, m := range mutants(t) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.rule, m.name, strings.TrimPrefix(m.caught, "TestScripts/"))
	}
	if *rewriteFlag {
		if err := os.WriteFile(tablePath, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(tablePath)
	if err != nil || string(got) != b.String() {
		t.Errorf("%s is not up to date (%v): run go test ./sim -run TestMutantTable -rewrite", tablePath, err)
	}
}

// A mutant whose script does not exist would seem to live.
func TestEveryMutantHasItsScript(t *testing.T) {
	names := map[string]bool{}
	for _, list := range scriptLists {
		for _, sc := range list {
			if names[sc.name] {
				t.Errorf("two scripts are called %s", sc.name)
			}
			names[sc.name] = true
		}
	}
	for _, m := range mutants(t) {
		if name := strings.TrimPrefix(m.caught, "TestScripts/"); !names[name] {
			t.Errorf("mutant %s names a script that does not exist: %s", m.name, name)
		}
	}
}
