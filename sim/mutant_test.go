package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var (
	mutantsFlag = flag.String("mutants", "sample", "which mutants to try: sample, all, none, or a name")
	mutantSeeds = flag.Int("mutantworlds", 400, "worlds in which a mutant must be caught")
)

// TestMutants breaks the product on purpose, one rule at a time, and wants the
// worlds to catch it. A mutant is a file in testdata/mutants: a first line that
// says which rule it breaks, then one or more edits,
//
//	replica/leases.go
//	<<<<
//	what stands there, exactly once
//	====
//	what shall stand there instead
//	>>>>
//
// applied at build time by -overlay. One that no longer applies is a failure.
func TestMutants(t *testing.T) {
	if *mutantsFlag == "none" || testing.Short() {
		t.Skip("mutants were not asked for; `make nightly` tries them all")
	}
	files, err := filepath.Glob("testdata/mutants/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			overlay, rule := readMutant(t, root, file)
			// All must apply; a sample of them is run.
			if *mutantsFlag == "sample" && i%4 != 0 || *mutantsFlag != "sample" && *mutantsFlag != "all" && *mutantsFlag != name {
				return
			}
			cmd := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-run", "^TestWorlds$", ".",
				"-worlds", fmt.Sprint(*mutantSeeds))
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("this mutant lives: %s", rule)
			}
			if !strings.Contains(string(out), "--- FAIL: TestWorlds") && !strings.Contains(string(out), "panic:") {
				t.Fatalf("%s: no verdict: %v\n%s", rule, err, out)
			}
			t.Logf("%s: %s", rule, verdict(string(out)))
		})
	}
}

// verdict is the line of the output that says what was found.
func verdict(out string) string {
	for line := range strings.SplitSeq(out, "\n") {
		if strings.Contains(line, "seed ") || strings.HasPrefix(line, "panic:") {
			return strings.TrimSpace(line)
		}
	}
	return "failed"
}

// readMutant makes the overlay of a mutant's file.
func readMutant(t *testing.T, root, file string) (overlay, rule string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rule, rest, _ := strings.Cut(string(raw), "\n")
	sources := map[string]string{}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		var path, before, after string
		var ok [4]bool
		path, rest, ok[0] = strings.Cut(rest, "\n")
		_, rest, ok[1] = strings.Cut(rest, "<<<<\n")
		before, rest, ok[2] = strings.Cut(rest, "====\n")
		after, rest, ok[3] = strings.Cut(rest, ">>>>")
		if ok != [4]bool{true, true, true, true} {
			t.Fatalf("%s: want path, <<<<, ====, >>>>", file)
		}
		src, read := sources[path]
		if !read {
			p, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			src = string(p)
		}
		if n := strings.Count(src, before); n != 1 {
			t.Fatalf("%s no longer applies: its text is %d times in %s", file, n, path)
		}
		sources[path] = strings.Replace(src, before, after, 1)
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
	return overlay, rule
}
