package mutant

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var mutantsFlag = flag.String("mutants", "sample", "which mutants to try: sample, all, none, or a name")

// sample is the mutant that is tried without being asked for: another one each day, so
// that all have their turn. Those that take random worlds have it at night.
func sample(list []mutant, now time.Time) string {
	var names []string
	for _, m := range list {
		if m.worlds() == "script" {
			names = append(names, m.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return names[int(now.Unix()/(24*60*60))%len(names)]
}

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
	list, err := load()
	if err != nil {
		t.Fatal(err)
	}
	named := slices.ContainsFunc(list, func(m mutant) bool { return m.name == *mutantsFlag })
	if !named && *mutantsFlag != "all" && *mutantsFlag != "sample" {
		t.Fatalf("there is no testdata/mutants/%s.txt", *mutantsFlag)
	}
	today := sample(list, time.Now())
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			overlay, err := Plant(root, t.TempDir(), m.edits, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch *mutantsFlag {
			case "all", m.name:
			case "sample":
				if m.name != today {
					return // that it applies is all that was asked
				}
			default:
				return
			}
			caught, err := m.caught(overlay)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s", m.rule, caught)
		})
	}
}

// caught runs the test that is to catch a mutant, and returns what it said.
func (m mutant) caught(overlay string) (said string, err error) {
	timeout := "-timeout=60s"
	if m.worlds() != "script" {
		timeout = "-timeout=15m"
	}
	args := append([]string{"test", "-overlay", overlay, "-count=1", timeout}, m.args()...)
	out, err := exec.Command("go", args...).CombinedOutput()
	if err == nil {
		return "", fmt.Errorf("this mutant lives: %s\ngo %s\n%s", m.rule, strings.Join(args, " "), out)
	}
	if said = verdict(string(out)); said == "" {
		return "", fmt.Errorf("%s: no verdict: %w\n%s", m.rule, err, out)
	}
	return said, nil
}

// verdict is the line of a test's output that says what was found; empty if it
// did not fail, or not by its own judgement.
func verdict(out string) string {
	if !strings.Contains(out, "--- FAIL: Test") || strings.Contains(out, "test timed out") {
		return ""
	}
	said := ""
	for line := range strings.SplitSeq(out, "\n") {
		found := strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:")
		if found && (said == "" || strings.Contains(line, ": seed ")) {
			said = strings.TrimSpace(line)
		}
	}
	return said
}

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
