package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/compat/upstream/integration"

	// These packages are imported by etcd's tests, which are built here, and not by this
	// module.
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/require"
	_ "go.etcd.io/etcd/client/pkg/v3/testutil"
	_ "go.etcd.io/etcd/client/v3/experimental/recipes"
	_ "go.etcd.io/etcd/client/v3/leasing"
	_ "go.etcd.io/etcd/client/v3/naming/resolver"
	_ "go.etcd.io/etcd/pkg/v3/grpctesting"
	_ "go.etcd.io/etcd/tests/v3/framework/config" // the module itself
	_ "go.etcd.io/gofail/runtime"
	_ "google.golang.org/grpc/interop/grpc_testing"
	_ "google.golang.org/protobuf/testing/protocmp"
)

var only = flag.String("only", "", "pattern of etcd's tests to run, in the suites that -run chooses")

const shim = "github.com/tenure-lease/tenure/compat/upstream/integration"

func TestUpstream(t *testing.T) {
	for _, kind := range server.Kinds() {
		if testing.Short() && kind == server.Etcd && len(server.Kinds()) > 1 {
			continue // that they pass where they come from is seen at night
		}
		if _, err := server.Binary(kind); err != nil {
			t.Fatal(err)
		}
		for _, s := range suites {
			t.Run(string(kind)+"/"+s.title(), func(t *testing.T) { runSuite(t, kind, s) })
		}
	}
}

// runSuite runs one package of etcd's and repeats its results as subtests.
func runSuite(t *testing.T, kind server.Kind, s suite) {
	program := filepath.Join(t.TempDir(), "suite.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", program, "-overlay="+overlay(t, s), "./etcd/"+s.title())
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build etcd's tests: %v\n%s", err, out)
	}
	args := []string{"tool", "test2json", "-t", program, "-test.v=test2json", "-test.timeout=20m"}
	if skipped := s.skipped(string(kind)); len(skipped) > 0 {
		args = append(args, "-test.skip=^("+strings.Join(skipped, "|")+")$")
	}
	pattern := s.run
	if testing.Short() && s.short != "" {
		pattern = s.short
	}
	if *only != "" {
		pattern = *only
	}
	if pattern != "" {
		args = append(args, "-test.run="+pattern)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), integration.KindVariable+"="+string(kind),
		fmt.Sprintf("%s=%d", integration.MembersVariable, s.size))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	passed := report(t, bufio.NewScanner(stdout))
	if err := cmd.Wait(); err != nil && !t.Failed() {
		t.Errorf("go test: %v\n%s", err, stderr.String())
	}
	if passed == 0 {
		t.Errorf("no test passed\n%s", stderr.String())
	}
}

// report turns the events of test2json into subtests.
func report(t *testing.T, events *bufio.Scanner) (passed int) {
	output := map[string]*strings.Builder{}
	events.Buffer(nil, 1<<20)
	for events.Scan() {
		var e struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if json.Unmarshal(events.Bytes(), &e) != nil {
			t.Log(events.Text())
			continue
		}
		if output[e.Test] == nil {
			output[e.Test] = &strings.Builder{}
		}
		text := output[e.Test]
		switch e.Action {
		case "output":
			text.WriteString(e.Output)
		case "pass", "fail", "skip":
			if e.Test == "" {
				if e.Action == "fail" {
					t.Errorf("the package failed\n%s", text)
				}
				continue
			}
			if e.Action == "pass" {
				passed++
			}
			if strings.Contains(e.Test, "/") {
				continue // part of its parent
			}
			t.Run(e.Test, func(t *testing.T) {
				switch e.Action {
				case "fail":
					t.Errorf("failed after %.1fs\n%s", e.Elapsed, withSubtests(output, e.Test))
				case "skip":
					t.Skip(text)
				}
			})
		}
	}
	return passed
}

func withSubtests(output map[string]*strings.Builder, test string) string {
	var all strings.Builder
	for name, text := range output {
		if name == test || strings.HasPrefix(name, test+"/") {
			all.WriteString(text.String())
		}
	}
	return all.String()
}

// overlay writes the suite's files, with our framework in the place of etcd's,
// to a temporary directory and returns the file for `go test -overlay` that
// puts them below this directory.
func overlay(t *testing.T, s suite) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", testsModule).Output()
	if err != nil {
		t.Fatalf("where is %s: %v", testsModule, err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(s.dir))
	files, err := filepath.Glob(filepath.Join(source, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", source, err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	add := func(name string, text []byte) {
		to := filepath.Join(dir, name)
		if err := os.WriteFile(to, text, 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, "etcd", s.title(), name)] = to
	}
	if s.extra != "" {
		add("extra_test.go", []byte("package integration\n"+s.extra))
	}
	for _, file := range files {
		name := filepath.Base(file)
		if s.files != nil && !slices.Contains(s.files, name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, theirs := range []string{testsModule + "/framework/integration", testsModule + "/integration"} {
			text = bytes.ReplaceAll(text, fmt.Appendf(nil, "%q", theirs), fmt.Appendf(nil, "%q", shim))
		}
		add(name, text)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(to, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
