package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict is what tests say of a break.
type verdict string

const (
	unreached verdict = "UNREACHED" // no test reaches it
	lived     verdict = "LIVED"
	partly    verdict = "LIVED…"   // but not all tests that reach it were run
	failed    verdict = "noticed"  // by an assertion
	panicked  verdict = "panicked" // which proves little about the rule
	hung      verdict = "hung"     // likewise
)

// trial has the programs that judge.
type trial struct {
	choice string // the file that selects the break
	tests  []*test
}

// test is a test function of a package, with the breaks that it reaches.
type test struct {
	program, dir, name string
	took               time.Duration
	reaches            map[int]bool
}

// prepare builds the tests of all packages with the breaks, and runs each once without one.
func prepare(ctx context.Context, temp string, dirs []string, b *broken, wanted *regexp.Regexp) (*trial, error) {
	t := &trial{choice: filepath.Join(temp, "break")}
	replace := map[string]string{}
	for path, src := range b.sources {
		src = bytes.ReplaceAll(src, []byte("brokenFile"), []byte(strconv.Quote(t.choice)))
		replace[path] = filepath.Join(temp, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], src, 0o600); err != nil {
			return nil, err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(temp, "overlay.json"), overlay, 0o600); err != nil {
		return nil, err
	}
	for i, dir := range dirs {
		program := filepath.Join(temp, fmt.Sprintf("%d.test", i))
		build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(temp, "overlay.json"), "-o", program, ".")
		build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off")
		if said, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the tests of %s: %w\n%s", dir, err, said)
		}
		list := exec.CommandContext(ctx, program, "-test.list", cmp.Or(wanted.String(), "."))
		list.Dir = dir
		names, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list the tests of %s: %w", dir, err)
		}
		for _, name := range strings.Fields(string(names)) {
			if strings.HasPrefix(name, "TestMutant") || !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Example") {
				continue
			}
			x := &test{program: program, dir: dir, name: name}
			if err := t.learn(ctx, x); err != nil {
				return nil, err
			}
			t.tests = append(t.tests, x)
		}
	}
	slices.SortStableFunc(t.tests, func(x, y *test) int { return cmp.Compare(x.took, y.took) })
	return t, nil
}

// learn runs a test without a break, and notes how long it takes and which breaks it reaches.
func (t *trial) learn(ctx context.Context, x *test) error {
	passed := t.choice + ".passed"
	if err := errors.Join(os.WriteFile(t.choice, nil, 0o600), os.WriteFile(passed, nil, 0o600)); err != nil {
		return err
	}
	began := time.Now()
	said, err := x.run(ctx, 10*time.Minute)
	if err != nil {
		return fmt.Errorf("%s fails without a break: %w\n%s", x.name, err, said)
	}
	x.took, x.reaches = time.Since(began), map[int]bool{}
	notes, err := os.ReadFile(passed)
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(string(notes)) {
		n, _ := strconv.Atoi(id) // our own
		x.reaches[n] = true
	}
	return os.Remove(passed)
}

// took is how long all tests take.
func (t *trial) took() (d time.Duration) {
	for _, x := range t.tests {
		d += x.took
	}
	return d
}

// judge makes a break, and runs the tests that reach it, for about as long as they may take.
func (t *trial) judge(ctx context.Context, b brk, most time.Duration) (verdict, error) {
	if err := os.WriteFile(t.choice, []byte(strconv.Itoa(b.id)), 0o600); err != nil {
		return "", err
	}
	v, spent := unreached, time.Duration(0)
	for _, x := range t.tests {
		if !x.reaches[b.id] {
			continue
		}
		if v != unreached && spent+x.took > most {
			return partly, nil
		}
		v, spent = lived, spent+x.took
		said, err := x.run(ctx, 15*time.Second+5*x.took)
		switch {
		case err == nil:
		case bytes.Contains(said, []byte("panic: test timed out")):
			return hung, nil
		case bytes.Contains(said, []byte("\npanic: ")) || bytes.Contains(said, []byte("fatal error: ")):
			return panicked, nil
		default:
			return failed, nil
		}
	}
	return v, nil
}

func (x *test) run(ctx context.Context, most time.Duration) (said []byte, err error) {
	cmd := exec.CommandContext(ctx, x.program, "-test.run", "^"+x.name+"$", "-test.count=1", "-test.timeout", most.String())
	cmd.Dir = x.dir
	cmd.WaitDelay = time.Second // a child of the test may hold its output
	return cmd.CombinedOutput()
}
