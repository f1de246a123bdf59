package mutant

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

const tablePath = "testdata/mutants/README.md"

const tableHead = `# Mutants

A mutant breaks one rule of the product on purpose; the test named beside it must
fail. How they are written is said in package internal/lab/mutant.

    go test PKG -run TestMutants -mutants=all        # all of them
    go test PKG -run TestMutants -mutants=NAME -v    # one
    go test PKG -run TestMutants                     # all must still apply

The command that finds one is ` + "`go test PKG -run`" + ` with what is said in the column
"found by": a directed script takes milliseconds, random worlds take as many as the
last column says. This table is written by ` + "`go test PKG -run TestMutantTable -rewrite`" + `.
WORLDS
| planted bug: it breaks the rule that | mutant | found by | worlds needed |
|---|---|---|---|
`

const worldsHead = `
Where the last column names a test, that many worlds at random, from seed 1 on and with no
script in them, had to be played until the checks noticed:

    go test PKG -run TestMutantWorlds -timeout 2h -v -mutants=NAME
    go test PKG -run TestMutantWorlds -timeout 2h -v -mutants=NAME -in=TestX -rewrite

The second writes the number down. It is one draw, and another one after each change of the
code; but within 300 worlds what was found has to be found again. What was not found in so
many is left to its script.
`

// Table wants that testdata/mutants/README.md lists the mutants as they are, and
// that each names a test that exists: scripts are the names of subtests, such as
// TestScripts/a-name. A mutant whose script does not exist would seem to live.
func Table(t *testing.T, scripts ...string) {
	t.Helper()
	list, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range scripts {
		if slices.Contains(scripts[:i], name) {
			t.Errorf("two scripts are called %s", name)
		}
	}
	for _, m := range list {
		if strings.Contains(m.test, "/") && !slices.Contains(scripts, m.test) {
			t.Errorf("mutant %s names a script that does not exist: %s", m.name, m.test)
		}
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := filepath.Rel(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	where := "."
	if pkg != "." {
		where = "./" + filepath.ToSlash(pkg)
	}
	want := table(where, list)
	if golden.Rewrites() {
		if err := os.WriteFile(tablePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(tablePath); err != nil || string(got) != want {
		t.Errorf("%s is not up to date (%v): run go test %s -run TestMutantTable -rewrite", tablePath, err, where)
	}
}

func table(pkg string, list []mutant) string {
	var b strings.Builder
	head := strings.ReplaceAll(tableHead, "WORLDS", "")
	if slices.ContainsFunc(list, func(m mutant) bool { return m.random != "" }) {
		head = strings.ReplaceAll(tableHead, "WORLDS", worldsHead)
	}
	b.WriteString(strings.ReplaceAll(head, "PKG", pkg))
	for _, m := range list {
		found := m.test
		if len(m.flags) > 0 {
			found += " -args " + strings.Join(m.flags, " ")
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | %s |\n", m.rule, m.name, found, m.column())
	}
	return b.String()
}
