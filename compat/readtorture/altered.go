package readtorture

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/lab/mutant"
)

// hooks let a plan reach into members (package hook). With them members plan the holders of
// the keys every 300 ms, by the reads of the last seconds. Safety does not depend on that.
var hooks = []mutant.Edit{
	{Path: "internal/host/clock/now.go", Before: "machine.Mono(ts.Nano())", After: "machine.Mono(hook.Drift(ts.Nano()))"},
	{Path: "internal/host/clock/boottime_linux.go", Before: "max(int64(at), 1)", After: "max(hook.Undrift(int64(at)), 1)"},
	{Path: "internal/member/node/config.go", Before: "c.Look = clock.Look", After: "c.Look = nil"}, // as a crystal, which all clocks follow
	{Path: "internal/host/wal/fs_linux.go", Before: "func (f osFile) Sync() error {\n", After: "func (f osFile) Sync() error {\n\thook.Disk()\n"},
	{Path: "internal/member/node/reads.go", Before: "l.Until > 0 && ", After: "l.Until > 0 && hook.Pause() && "},
	{Path: "internal/member/node/barrier.go", Before: "if n.State().index >= index {\n", After: "if hook.Pause() && n.State().index >= index {\n"},
	{Path: "internal/member/node/readview.go", Before: "n.order.Load() == order", After: "hook.Pause() && n.order.Load() == order"},
	{Path: "internal/member/node/readview.go", Before: "if r.ready.ByLog {\n", After: "if hook.Pause() && r.ready.ByLog {\n"},
	{Path: "internal/member/node/readview.go", Before: "ok := visibility.For(*n.ahead.Load(), r.ready); err", After: "ok := visibility.For(*n.ahead.Load(), r.ready); hook.Pause() && err"},
	{Path: "internal/member/node/node.go", Before: "MaxTailBytes: n.cfg.MaxTailBytes", After: "MaxTailBytes: hook.Tail(n.cfg.MaxTailBytes)"},
	{Path: "internal/core/replica/readleases.go", Before: "c.PlanEvery = 5 * time.Second", After: "c.PlanEvery = 300 * time.Millisecond"},
	{Path: "internal/core/replica/readleases.go", Before: "c.Planner.Buckets = placement.MaxBuckets", After: "c.Planner.Buckets = 256"},
	{Path: "internal/core/placement/settings.go", Before: "s.HalfLife = 5 * time.Minute", After: "s.HalfLife = 2 * time.Second"},
	{Path: "internal/core/placement/settings.go", Before: "s.Price = 50 * time.Millisecond", After: "s.Price = time.Millisecond"},
	{Path: "internal/core/placement/settings.go", Before: "s.Price = 20 * time.Millisecond", After: "s.Price = time.Millisecond"},
}

// module is Tenure's own, whose sources are read and not changed.
const module = "../.."

// Build builds members with package hook, and returns their program, in dir.
func Build(dir string) (string, error) { return build(dir, hooked(nil)) }

// hooked are edits of Tenure's sources with hooks after them.
func hooked(edits []mutant.Edit) []mutant.Edit {
	edits = slices.Concat(edits, hooks)
	uses := map[string]bool{}
	for _, h := range hooks {
		if strings.Contains(h.After, "hook.") && !uses[h.Path] {
			uses[h.Path] = true
			edits = append(edits, mutant.Edit{Path: h.Path, Before: "import (\n", After: "import (\n\t\"github.com/tenure-lease/tenure/hook\"\n"})
		}
	}
	return edits
}

// build builds Tenure with edits, and returns its program, in dir.
func build(dir string, edits []mutant.Edit) (string, error) {
	overlay, err := plant(dir, edits)
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "tenure")
	build := exec.Command("go", "build", "-overlay", overlay, "-o", program, "./cmd/tenure")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return program, nil
}

func plant(dir string, edits []mutant.Edit) (overlay string, err error) {
	root, err := filepath.Abs(module)
	if err != nil {
		return "", err
	}
	return mutant.Plant(root, dir, edits, map[string]string{"hook/hook.go": filepath.Join(root, "compat/readtorture/hook/hook.go")})
}
