package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	mutantsFlag = flag.String("mutants", "sample", "which mutants to try: sample, all, none, or a name")
	rewriteFlag = flag.Bool("rewrite", false, "rewrite the table of mutants")
)

// sampled is every how many of the mutants are tried without being asked for.
const sampled = 16

// TestMutants breaks the product on purpose, one rule at a time, and wants the
// named test to catch it; see testdata/mutants/README.md. A mutant's edits are
// applied at build time by -overlay. One that no longer applies is a failure.
func TestMutants(t *testing.T) {
	if *mutantsFlag == "none" || testing.Short() {
		t.Skip("mutants were not asked for; `make nightly` tries them all")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants(t) {
		t.Run(m.name, func(t *testing.T) {
			overlay := m.plant(t, root)
			switch *mutantsFlag {
			case "all", m.name:
			case "sample":
				if i%sampled != 0 {
					return // that it applies is all that was asked
				}
			default:
				return
			}
			args := append([]string{"test", "-overlay", overlay, "-count=1", "-timeout=60s"}, strings.Fields(m.command)...)
			out, err := exec.Command("go", args...).CombinedOutput()
			switch verdict := verdict(string(out)); {
			case err == nil:
				t.Fatalf("this mutant lives: %s", m.rule)
			case verdict == "":
				t.Fatalf("%s: no verdict: %v\n%s", m.rule, err, out)
			default:
				t.Logf("%s: %s", m.rule, verdict)
			}
		})
	}
}

// verdict is the line of a test's output that says what was found; empty if it
// did not fail, or not by its own judgement.
func verdict(out string) string {
	if !strings.Contains(out, "--- FAIL: Test") || strings.Contains(out, "test timed out") {
		return ""
	}
	lines := strings.Split(out, "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "_test.go:") || strings.HasPrefix(l, "panic:") })
	if at < 0 {
		return ""
	}
	return strings.TrimSpace(lines[at])
}

// mutant is one file of testdata/mutants: the rule it breaks, the test that
// catches it, and edits.
type mutant struct {
	name, rule, caught string
	command            string // arguments of `go test`
	edits              []edit
}

type edit struct{ path, before, after string }

func mutants(t *testing.T) []mutant {
	t.Helper()
	files, err := filepath.Glob("testdata/mutants/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	var list []mutant
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := parseMutant(string(raw))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		m.name = strings.TrimSuffix(filepath.Base(file), ".txt")
		list = append(list, m)
	}
	return list
}

// parseMutant reads a mutant. The newline before a marker belongs to the marker,
// so that an edit can begin and end within a line.
func parseMutant(raw string) (m mutant, err error) {
	head, rest, ok := strings.Cut(raw, "\n\n")
	if !ok {
		return m, fmt.Errorf("want a rule and a test, then a blank line")
	}
	m.rule, m.caught, ok = strings.Cut(head, "\ncaught by: ")
	if !ok {
		return m, fmt.Errorf("want a second line `caught by: a test`")
	}
	var pattern []string
	for part := range strings.SplitSeq(m.caught, "/") {
		pattern = append(pattern, "^"+part+"$")
	}
	m.command = "-run " + strings.Join(pattern, "/") + " ."
	for rest = strings.Trim(rest, "\n"); rest != ""; rest = strings.Trim(rest, "\n") {
		var e edit
		var ok [3]bool
		e.path, rest, ok[0] = strings.Cut(rest, "\n<<<<\n")
		e.before, rest, ok[1] = strings.Cut(rest, "\n====\n")
		e.after, rest, ok[2] = strings.Cut("\n"+rest, "\n>>>>")
		if ok != [3]bool{true, true, true} {
			return m, fmt.Errorf("want a path, <<<<, ====, >>>>, each on its own line")
		}
		e.after = strings.TrimPrefix(e.after, "\n")
		m.edits = append(m.edits, e)
	}
	return m, nil
}

// plant writes the mutant's sources and the overlay that puts them in place.
func (m mutant) plant(t *testing.T, root string) (overlay string) {
	t.Helper()
	sources := map[string]string{}
	for _, e := range m.edits {
		src, read := sources[e.path]
		if !read {
			p, err := os.ReadFile(filepath.Join(root, e.path))
			if err != nil {
				t.Fatal(err)
			}
			src = string(p)
		}
		if n := strings.Count(src, e.before); n != 1 {
			t.Fatalf("it no longer applies: this text is %d times in %s:\n%s", n, e.path, e.before)
		}
		sources[e.path] = strings.Replace(src, e.before, e.after, 1)
	}
	replace := map[string]string{}
	dir := t.TempDir()
	for path, src := range sources {
		tmp := filepath.Join(dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(tmp, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, path)] = tmp
	}
	p, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, p, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
