package readtorture

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// mutants are members that break a rule of read leases, for the whole of this package
// to find. Package sim/replicasim has one for each rule; here are those that take a
// driver, or that real processes find soon.
var mutants = []struct{ rule, path, before, after string }{
	{"a member reads on when its lease has ended", "node/reads.go", "rs.clock() < l.Until", "rs.clock() > 0"},
	{"an entry is released although a holder does not have it", "quorumlease/ledger.go", "limit = min(limit, l.has(h))", "_ = h"},
	{"a member reads what it has applied, whatever its log holds", "replica/readrelease.go", "now.Index = r.last\n", "now.Index = rl.released\n"},
}

// module is Tenure's own, whose sources are read for mutants and not changed.
const module = "../.."

func TestMutantsApply(t *testing.T) {
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join(module, m.path))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), m.before); n != 1 {
			t.Errorf("%s: it no longer applies: %q is %d times in %s", m.rule, m.before, n, m.path)
		}
	}
}

// TestMutantsAreFound tortures each and wants violations.
func TestMutantsAreFound(t *testing.T) {
	if testing.Short() || !server.Has(server.Tenure) {
		t.Skip("each is built and run: the judges' own tests run")
	}
	for i, m := range mutants {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Log(m.rule)
			binary := plant(t, m.path, m.before, m.after)
			for seed := uint64(13); seed < 17; seed++ {
				p := NewPlan(seed, "all", 3, 30*time.Second)
				p.Binary = binary
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				out, err := Run(ctx, p, t.TempDir(), func(string) {})
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				if n := len(out.Violations); n > 0 {
					t.Logf("seed %d finds %d violations, first %v", seed, n, out.Violations[0])
					return
				}
			}
			t.Error("it was not found")
		})
	}
}

// plant builds a mutant and returns its program.
func plant(t *testing.T, path, before, after string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(module)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay, binary := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tenure")
	places, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, path): changed}})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{changed: strings.Replace(string(source), before, after, 1), overlay: string(places)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./cmd/tenure")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the mutant: %v\n%s", err, out)
	}
	return binary
}
