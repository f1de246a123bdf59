package mutant

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// choice is the variable of the environment that chooses the mutant of a woven program; 0 is none.
const choice = "TENURE_MUTANT"

// asksEnvironment is the file that [Weave] adds.
const asksEnvironment = `import (
	"os"
	"strconv"
)

var theChosen, _ = strconv.Atoi(os.Getenv("` + choice + `"))

func chosen(bug int) bool { return bug == theChosen }
`

// schema is the tests of a package, built once, with many mutants. A mutant that it shows to be
// noticed is noticed: the second body of a function is all that differs, and without a mutant the
// same test passes. One that it shows to live may live because of the weaving, for instance if the
// test starts a process without this one's environment, and is tried alone.
type schema struct {
	binary string
	ids    map[string]int  // of the mutants in it, by name
	failed map[string]bool // tests that fail without a mutant
}

// weave builds a schema of those of a package's mutants that can be woven, in dir.
func weave(ctx context.Context, root, dir string, list []mutant) (*schema, error) {
	s := &schema{filepath.Join(dir, "woven.test"), map[string]int{}, map[string]bool{}}
	var bugs [][]Edit
	for _, m := range list {
		bugs = append(bugs, m.edits)
	}
	texts, in, err := Weave(root, bugs, asksEnvironment)
	if err != nil {
		return nil, err
	}
	for i, m := range list {
		if in[i] {
			s.ids[m.name] = i + 1
		}
	}
	if len(s.ids) == 0 {
		return s, nil
	}
	overlay, err := lay(root, dir, texts, nil)
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", s.binary, ".")
	build.Dir = list[0].dir
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
	}
	s.test(ctx, list)
	return s, nil
}

// parent returns the test of which a mutant's test is a part, which may be "", and the part's name.
func (m mutant) parent() (parent, name string) {
	if i := strings.LastIndex(m.test, "/"); i >= 0 {
		return m.test[:i], m.test[i+1:]
	}
	return "", m.test
}

// test runs the tests of all mutants without a mutant, and notes which fail. Those with the same
// parent and flags run together.
func (s *schema) test(ctx context.Context, list []mutant) {
	alike := map[string][]mutant{}
	for _, m := range list {
		if s.ids[m.name] > 0 {
			parent, _ := m.parent()
			key := strings.Join(append([]string{parent}, m.flags...), " ")
			alike[key] = append(alike[key], m)
		}
	}
	for _, some := range alike {
		var names []string
		for _, m := range some {
			if _, name := m.parent(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		pattern := "^(" + strings.Join(names, "|") + ")$"
		if parent, _ := some[0].parent(); parent != "" {
			pattern = anchored(parent) + "/" + pattern
		}
		cmd := s.command(ctx, 0, pattern, 15*time.Minute, some[0].flags)
		cmd.Dir = some[0].dir
		out, err := cmd.CombinedOutput()
		if err == nil {
			continue
		}
		whole := !strings.Contains(string(out), "--- FAIL: ") || strings.Contains(string(out), "panic:")
		for _, m := range some {
			if whole || strings.Contains(string(out), "--- FAIL: "+m.test+" ") {
				s.failed[m.test] = true
			}
		}
	}
}

// caught runs the test that is to catch a mutant. It reports false if the mutant is not in the
// schema, or its test is of no use there.
func (s *schema) caught(ctx context.Context, m mutant) (said string, in bool, err error) {
	if s.ids[m.name] == 0 || s.failed[m.test] {
		return "", false, nil
	}
	said, err = m.judge(ctx, s.command(ctx, s.ids[m.name], anchored(m.test), m.patience(), m.flags))
	return said, true, err
}

func (s *schema) command(ctx context.Context, id int, pattern string, patience time.Duration, flags []string) *exec.Cmd {
	args := []string{"-test.paniconexit0", "-test.count=1", fmt.Sprint("-test.timeout=", patience), "-test.run=" + pattern}
	cmd := exec.CommandContext(ctx, s.binary, append(args, flags...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", choice, id))
	return cmd
}
