package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// verdict is what tests say of a break.
type verdict string

const (
	lived    verdict = "LIVED"
	failed   verdict = "noticed"  // by an assertion
	panicked verdict = "panicked" // which proves little about the rule
	hung     verdict = "hung"     // likewise
	unbuilt  verdict = "unbuilt"
)

// trial runs the tests of packages.
type trial struct {
	dirs []string
	run  string
	each time.Duration
	temp string // for overlays
}

// try runs the tests with a break; no source file is touched.
func (t trial) try(ctx context.Context, b broken) (verdict, error) {
	src, err := b.source()
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(t.temp, "broken.go"), filepath.Join(t.temp, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {b.file: file}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, src, 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return "", err
	}
	said, err := t.pass(ctx, "-overlay", overlay)
	switch {
	case err == nil:
		return lived, nil
	case bytes.Contains(said, []byte("[build failed]")) || bytes.Contains(said, []byte("[setup failed]")):
		return unbuilt, nil
	case bytes.Contains(said, []byte("panic: test timed out")):
		return hung, nil
	case bytes.Contains(said, []byte("\npanic: ")) || bytes.Contains(said, []byte("fatal error: ")):
		return panicked, nil
	}
	return failed, nil
}

// pass runs the tests of one package after the other, until one fails.
func (t trial) pass(ctx context.Context, more ...string) (said []byte, err error) {
	for _, dir := range t.dirs {
		args := append([]string{"test", "-count=1", "-vet=off", "-failfast", "-skip", "^TestMutant", "-timeout", t.each.String()}, more...)
		if t.run != "" {
			args = append(args, "-run", t.run)
		}
		cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		if said, err = cmd.CombinedOutput(); err != nil {
			return said, fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil, nil
}
