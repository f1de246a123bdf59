package mutant

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	budgetFlag = flag.String("budget", "", "try mutants of the whole module: for so much `CPU`, such as 150s, or \"all\"")
	drawFlag   = flag.Uint64("seed", 0, "draw the mutants of this seed; 0: of one at random")
	sinceFlag  = flag.String("since", "", "try no mutants but those that are new or changed since a `commit`")
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
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	list, err := everywhere(root)
	if err == nil && *sinceFlag != "" {
		list, err = changedSince(root, list, *sinceFlag)
	}
	if err != nil {
		t.Fatal(err)
	}
	if *budgetFlag == "all" {
		draw(t, root, list, seed, 0, 0)
		return
	}
	budget, err := time.ParseDuration(*budgetFlag)
	if err != nil {
		t.Fatal(err)
	}
	if d := draw(t, root, list, seed, budget, 3*time.Minute); len(d.noticed) == 0 {
		t.Error("none was noticed in the whole budget; raise it")
	}
}

// Mutants of one package are tried together, up to so many; none is left out, and their order decides
// which packages come first.
func TestTogether(t *testing.T) {
	var list []mutant
	for i, dir := range strings.Split("babcbbab", "") {
		list = append(list, mutant{dir: dir, name: strconv.Itoa(i)})
	}
	var got []string
	for _, part := range together(list, 3) {
		text := part[0].dir
		for _, m := range part {
			if text += m.name; m.dir != part[0].dir {
				t.Errorf("%s of %s is in a part with %s", m.name, m.dir, part[0].dir)
			}
		}
		got = append(got, text)
	}
	if want := []string{"b024", "a16", "c3", "b57"}; !slices.Equal(got, want) {
		t.Errorf("together are %q, want %q", got, want)
	}
}

// Of a list, those are left whose files were added or changed since a commit.
func TestChangedSince(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		dir := filepath.Join(root, "p/testdata/mutants")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name+".txt"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("old", "1")
	write("changed", "1")
	git("add", ".")
	git("commit", "-q", "-m", "a")
	write("changed", "2")
	write("new", "1")
	git("add", ".")
	git("commit", "-q", "-m", "b")
	dir := filepath.Join(root, "p")
	list, err := changedSince(root, []mutant{{dir: dir, name: "old"}, {dir: dir, name: "changed"}, {dir: dir, name: "new"}}, "HEAD~")
	if err != nil || len(list) != 2 || list[0].name != "changed" || list[1].name != "new" {
		t.Errorf("since the first commit: %v, %v", list, err)
	}
	if _, err := changedSince(root, nil, "nowhere"); err == nil {
		t.Error("a commit that is none changes nothing")
	}
}

// A failure is tried once more, unless there is no time left.
func TestTwice(t *testing.T) {
	bad := errors.New("it lives")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name       string
		ctx        context.Context
		tries      []error
		first, err error
	}{
		{"noticed", t.Context(), []error{nil}, nil, nil},
		{"noticed the second time", t.Context(), []error{bad, nil}, bad, nil},
		{"never noticed", t.Context(), []error{bad, bad}, bad, bad},
		{"no time left", over, []error{context.Canceled}, nil, context.Canceled},
	} {
		left := tt.tries
		_, first, err := twice(tt.ctx, func() (string, error) {
			err := left[0]
			left = left[1:]
			return "", err
		})
		if first != tt.first || err != tt.err || len(left) > 0 {
			t.Errorf("%s: first %v, then %v, and %d tries left; want %v and %v", tt.name, first, err, len(left), tt.first, tt.err)
		}
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
	if !slices.Contains(dirs, filepath.Join(root, "internal/host/wal")) || slices.ContainsFunc(dirs, func(d string) bool { return strings.Contains(d, "internal/lab/mutant") }) {
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

// TestEvidence wants docs/evidence.md to list the planted bugs of each package.
func TestEvidence(t *testing.T) { evidence(t) }
