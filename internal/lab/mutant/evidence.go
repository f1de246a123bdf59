package mutant

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// The part of docs/evidence.md that is written from the mutants stands between these.
const (
	evidencePath  = "docs/evidence.md"
	evidenceBegin = "<!-- planted bugs: written by go test ./internal/lab/mutant -run TestEvidence -rewrite -->\n"
	evidenceEnd   = "<!-- end of planted bugs -->\n"
)

// evidence wants the page's table to list each package's planted bugs, and the tests that
// notice them.
func evidence(t *testing.T) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	list, err := everywhere(root)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, evidencePath)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), evidenceBegin)
	_, tail, ended := strings.Cut(rest, evidenceEnd)
	if !ok || !ended {
		t.Fatalf("%s has no lines\n%s%s", evidencePath, evidenceBegin, evidenceEnd)
	}
	want := head + evidenceBegin + planted(root, list) + evidenceEnd + tail
	if golden.Rewrites() {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s is not up to date: run go test ./internal/lab/mutant -run TestEvidence -rewrite", evidencePath)
	}
}

// named is the page's name for a directory's package.
func named(dir string) string {
	if dir == "." {
		return "tenure"
	}
	return dir
}

// planted is the table: a row for each package of the product that bugs are planted in.
func planted(root string, list []mutant) string {
	rules := map[string]int{}                // planted bugs by package
	tests := map[string]map[string]int{}     // and by the test that notices, with its package
	tables := map[string]map[string]string{} // where the rules are listed
	for _, m := range list {
		pkg := named(path.Dir(m.edits[0].Path))
		dir, err := filepath.Rel(root, m.dir)
		if err != nil {
			panic(err) // below root, where it was found
		}
		if tests[pkg] == nil {
			tests[pkg], tables[pkg] = map[string]int{}, map[string]string{}
		}
		rules[pkg]++
		name, _, _ := strings.Cut(m.test, "/")
		tests[pkg][named(dir)+" "+name]++
		tables[pkg][dir] = fmt.Sprintf("[%s](%s)", named(dir), path.Join("..", dir, tablePath))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d bugs in %d packages.\n\n| package | planted bugs | noticed by | rules, one by one |\n|---|---|---|---|\n", len(list), len(rules))
	for _, pkg := range slices.Sorted(maps.Keys(rules)) {
		names := slices.SortedFunc(maps.Keys(tests[pkg]), func(x, y string) int {
			return cmp.Or(tests[pkg][y]-tests[pkg][x], cmp.Compare(x, y))
		})
		said := []string{}
		for i, name := range names {
			if i == 6 {
				said = append(said, fmt.Sprintf("and %d tests more", len(names)-i))
				break
			}
			said = append(said, fmt.Sprintf("`%s` %d", name, tests[pkg][name]))
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", pkg, rules[pkg], strings.Join(said, ", "), strings.Join(slices.Sorted(maps.Values(tables[pkg])), ", "))
	}
	return b.String()
}
