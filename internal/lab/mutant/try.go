package mutant

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

var mutantsFlag = flag.String("mutants", "apply", "which mutants to try: all, a name, or none at all; apply: all must apply, and none is tried")

// Try plants the mutants that the flag names, one at a time, and wants each to be
// caught by its own test. All of them must apply.
func Try(t *testing.T) {
	t.Helper()
	if *mutantsFlag == "none" || testing.Short() {
		t.Skip("mutants were not asked for; `make mutants` tries them all")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	list, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	named := slices.ContainsFunc(list, func(m mutant) bool { return m.name == *mutantsFlag })
	if !named && *mutantsFlag != "all" && *mutantsFlag != "apply" {
		t.Fatalf("there is no testdata/mutants/%s.txt", *mutantsFlag)
	}
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			overlay, err := Plant(root, t.TempDir(), m.edits, nil)
			if err != nil {
				t.Fatal(err)
			}
			if *mutantsFlag != "all" && *mutantsFlag != m.name {
				return // that it applies is all that was asked
			}
			said, err := m.caught(t.Context(), overlay)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", m.rule, said)
			if golden.Rewrites() && m.says == "" {
				m.says = words(said)
				if err := m.write(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// caught runs the test that is to catch a mutant, and returns its output.
func (m mutant) caught(ctx context.Context, overlay string) (said string, err error) {
	args := append([]string{"test", "-vet=off", "-overlay", overlay, "-count=1", fmt.Sprint("-timeout=", m.patience())}, m.args()...)
	return m.judge(ctx, exec.CommandContext(ctx, "go", args...))
}

// judge runs a command with the mutant in it, which is to fail by the mutant's test.
func (m mutant) judge(ctx context.Context, cmd *exec.Cmd) (said string, err error) {
	cmd.Dir = m.dir
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "", fmt.Errorf("this mutant lives: %s\n%s\n%s", m.rule, strings.Join(cmd.Args, " "), out)
	}
	if said = verdict(string(out), m.says); said == "" {
		return "", fmt.Errorf("%s: no verdict about this rule: %w\n%s", m.rule, err, out)
	}
	return said, nil
}

// verdict is the line of a test's output with the failure. It is empty if the test did not fail
// by its own judgement: with the announced words or, if none were announced, by an assertion in
// a test's file and without a panic.
func verdict(out, says string) string {
	if !strings.Contains(out, "--- FAIL: Test") || strings.Contains(out, "test timed out") {
		return ""
	}
	said := ""
	for line := range strings.SplitSeq(out, "\n") {
		switch {
		case says != "":
			if strings.Contains(line, says) {
				return strings.TrimSpace(line)
			}
		case strings.HasPrefix(line, "panic:"):
			return ""
		case strings.Contains(line, "_test.go:") && (said == "" || strings.Contains(line, ": seed ")):
			said = strings.TrimSpace(line)
		}
	}
	return said
}

// words are the part of a judgement that another run repeats: the longest one without a
// number, and without the place in the test's file.
func words(said string) (longest string) {
	if _, message, ok := strings.Cut(said, "_test.go:"); ok {
		_, said, _ = strings.Cut(message, ": ")
	}
	for _, part := range numbers.Split(said, -1) {
		if part = strings.TrimSpace(part); len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// numbers match the parts that differ from run to run: words with a digit, and names in a temporary
// directory.
var numbers = regexp.MustCompile(`\S*[0-9]\S*|\S*/tmp/\S*`)

// moduleRoot is the nearest directory above that has a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return "", fmt.Errorf("no go.mod above the test's directory")
}
