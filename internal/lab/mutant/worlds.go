package mutant

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

var (
	upToFlag = flag.Int("upto", 300, "how many random worlds a mutant is given")
	inFlag   = flag.String("in", "", "the test that plays random worlds for a mutant; empty: as its file says")
)

// Worlds plants the mutants that the flag names and that are to be found in random worlds,
// too, and wants them to be. With -rewrite it writes down how many worlds that took, or
// that so many did not suffice.
func Worlds(t *testing.T) {
	t.Helper()
	if *mutantsFlag == "none" || *mutantsFlag == "apply" {
		t.Skip("random worlds were not asked for; `make nightly` plays them")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	list, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, m := range list {
		if *inFlag != "" {
			m.random = *inFlag
		}
		lived := m.needed == 0 && m.tried > 0 // left to its script
		if m.random == "" || *mutantsFlag != m.name && (*mutantsFlag != "all" || lived && !golden.Rewrites()) {
			continue
		}
		played++
		t.Run(m.name, func(t *testing.T) {
			overlay, err := Plant(root, t.TempDir(), m.edits, nil)
			if err != nil {
				t.Fatal(err)
			}
			said, err := m.play(overlay, *upToFlag)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %s; %s", m.rule, m.found(), said)
			if golden.Rewrites() {
				if err := m.write(); err != nil {
					t.Fatal(err)
				}
			} else if m.needed == 0 {
				t.Errorf("it lives through %d worlds: they have become too soft, or there is a script for it in vain", m.tried)
			}
		})
	}
	if played == 0 {
		t.Fatalf("no mutant %s that names random worlds; -in names a test", *mutantsFlag)
	}
}

// play plays up to so many worlds, and notes how many it took.
func (m *mutant) play(overlay string, upTo int) (said string, err error) {
	out, err := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-timeout=2h", "-run", "^"+m.random+"$", ".",
		"-args", "-worlds", strconv.Itoa(upTo)).CombinedOutput()
	m.needed, m.tried = 0, upTo
	if err == nil {
		if strings.Contains(string(out), "no tests to run") {
			return "", fmt.Errorf("there is no %s", m.random)
		}
		return "it lives", nil
	}
	n := worldFailed.FindSubmatch(out)
	said = verdict(string(out), "")
	if said == "" || n == nil {
		return "", fmt.Errorf("no verdict: %w\n%s", err, out)
	}
	m.needed, err = strconv.Atoi(string(n[1]))
	m.tried = m.needed
	return said, err
}

// worldFailed matches package simtest's line about a world that failed.
var worldFailed = regexp.MustCompile(`world (\d+) of \d+ failed`)

// write writes the finding into the mutant's file.
func (m mutant) write() error {
	file := filepath.Join(m.dir, "testdata/mutants", m.name+".txt")
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, _ := strings.Cut(string(raw), "\n\n")
	head, _, _ = strings.Cut(head, inWorlds)
	head, _, _ = strings.Cut(head, inWords)
	if m.says != "" {
		head += inWords + m.says
	}
	if m.random != "" {
		head += inWorlds + m.found()
	}
	return os.WriteFile(file, []byte(head+"\n\n"+rest), 0o644)
}
