package mutant

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	budgetFlag = flag.String("budget", "", "try mutants of the whole module: for so much `CPU`, such as 150s, or \"all\"")
	drawFlag   = flag.Uint64("seed", 0, "draw the mutants of this seed; 0: of one at random")
)

// TestDraw tries mutants of all packages, those that a seed draws or all of them.
func TestDraw(t *testing.T) {
	if *budgetFlag == "" {
		t.Skip("no mutants were asked for; `make mutants` tries all, `make draw` some")
	}
	seed := *drawFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	if *budgetFlag == "all" {
		draw(t, seed, 0, 0)
		return
	}
	budget, err := time.ParseDuration(*budgetFlag)
	if err != nil {
		t.Fatal(err)
	}
	if d := draw(t, seed, budget, 3*time.Minute); len(d.noticed) == 0 {
		t.Error("none was noticed in the whole budget; raise it")
	}
}

// All packages that have mutants are found, and this package's own are left out; and each
// of them has a test that tries them, or at least sees that they apply.
func TestEverywhere(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	list, err := everywhere(root)
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, m := range list {
		if !slices.Contains(dirs, m.dir) {
			dirs = append(dirs, m.dir)
		}
	}
	if !slices.Contains(dirs, filepath.Join(root, "wal")) || slices.ContainsFunc(dirs, func(d string) bool { return strings.Contains(d, "sim/mutant") }) {
		t.Errorf("found mutants in %q", dirs)
	}
	for _, dir := range dirs {
		tries := false
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tries = tries || strings.Contains(string(src), "mutant.Try(t)") && strings.Contains(string(src), "mutant.Table(t")
		}
		if !tries {
			t.Errorf("%s has mutants, and no tests that call mutant.Try and mutant.Table", dir)
		}
	}
}

// TestEvidence wants docs/evidence.md to say what is planted where.
func TestEvidence(t *testing.T) { evidence(t) }
