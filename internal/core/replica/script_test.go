package replica

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite-scripts", false, "rewrite the expected output in testdata/*.txt")

// TestScripts tells the main stories. A line that begins with "> " is a command
// (see commands in stage_test.go); what follows it, up to a blank line or the
// next command, is what happened. Everything else is explanation.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("%s", firstDifference(got, string(raw)))
			}
		})
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d:\ngot  %s\nwant %s\nIf that is as it should be, run with -rewrite-scripts, and say why in the commit", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// play runs a script and returns it with the output in its place.
func play(t *testing.T, script string) string {
	t.Helper()
	s := newStage(t)
	var out strings.Builder
	output := false // what follows is old output
	for line := range strings.Lines(script) {
		switch command, is := strings.CutPrefix(line, "> "); {
		case is:
			output = true
			out.WriteString(line)
			for _, l := range s.do(strings.TrimSpace(command)) {
				out.WriteString(l + "\n")
			}
		case output && strings.TrimSpace(line) != "":
		default:
			output = false
			out.WriteString(line)
		}
	}
	return out.String()
}
