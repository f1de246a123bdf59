package tenure_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tenure-lease/tenure"

// layers says what the packages below a folder may import from this module, besides their own
// folder. The longest folder that fits a package counts. It is a statement of policy: change it
// when the architecture changes, with the reason in ARCHITECTURE.md, and not to make a build pass.
const layers = `
tenure:
api:
fence:
leasetest: tenure

internal/machine:
internal/wire:
internal/cli:
internal/chart:
internal/load: internal/chart
internal/state: internal/wire
internal/protocol: internal/machine internal/wire
internal/core: internal/machine internal/wire internal/protocol internal/state
internal/host: internal/machine internal/wire internal/protocol
internal/holder: tenure internal/machine internal/wire internal/protocol internal/host
internal/member: api internal/machine internal/wire internal/protocol internal/state internal/core internal/host

engine: tenure internal/machine internal/wire internal/protocol internal/host internal/holder
server: internal/member
broadcast: internal/machine internal/member

internal/lab: tenure api engine internal
examples: tenure fence engine broadcast internal/machine internal/protocol internal/host internal/holder
cmd/tenure: tenure api engine broadcast internal/cli internal/chart internal/load internal/machine internal/wire internal/state internal/protocol internal/core internal/host internal/holder internal/member
cmd/tenure-lab: tenure api fence leasetest engine server broadcast internal
`

// testLayers says what tests may import besides.
const testLayers = `
tenure: fence leasetest engine internal
api: server
fence: tenure engine internal
leasetest: engine internal
internal: tenure api fence leasetest engine internal
engine: fence leasetest server internal
server: internal
broadcast: internal
examples: leasetest server internal
cmd/tenure: fence leasetest internal
`

// apart names folders whose packages know nothing of each other, and the exceptions: a protocol
// that is a part of another one.
var apart = map[string][]string{
	"internal/protocol": {},
	"internal/state":    {},
	"internal/core":     {"internal/core/replica internal/core/placement", "internal/core/visibility internal/core/replica"},
}

// pure folders neither block nor look at the world: time, randomness and messages are arguments.
var pure = []string{"internal/machine", "internal/wire", "internal/state", "internal/protocol", "internal/core", "internal/lab/ycsb"}

var impure = []string{
	"context", "crypto/rand", "log", "log/slog", "math/rand", "math/rand/v2",
	"net", "os", "runtime", "sync", "sync/atomic", "syscall", "testing",
}

// exempt lists the one impure import that a pure package may have, see
// ARCHITECTURE.md: readers of kv walk version chains behind an atomic head.
var exempt = map[string]string{"internal/state/kv": "sync/atomic"}

var clockCalls = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

func TestLayers(t *testing.T) {
	list := func(imports string) string {
		out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} "+imports, "./...").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, offence := range layerOffences(list(`{{join .Imports " "}}`), false) {
		t.Error(offence)
	}
	for _, offence := range layerOffences(list(`{{join .TestImports " "}} {{join .XTestImports " "}}`), true) {
		t.Error("a test: " + offence)
	}
}

// The shipped command links no package of the lab, directly or through another.
func TestShippedCommandHasNoLab(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/tenure").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, offence := range shippedLab(string(out)) {
		t.Error(offence)
	}
}

// shippedLab judges the packages that the shipped command is made of, one a line.
func shippedLab(listing string) (offences []string) {
	for pkg := range strings.FieldsSeq(listing) {
		if within(pkg, module+"/internal/lab") {
			offences = append(offences, "cmd/tenure ships "+strings.TrimPrefix(pkg, module+"/"))
		}
	}
	return offences
}

// within reports whether a package is a folder's.
func within(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// longest returns the longest of some folders that a package is within, "" if there is none.
func longest(pkg string, folders []string) (best string) {
	for _, f := range folders {
		if within(pkg, f) && len(f) > len(best) {
			best = f
		}
	}
	return best
}

func rules(table string) (folders []string, allowed map[string][]string) {
	allowed = map[string][]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(table), "\n") {
		if folder, deps, ok := strings.Cut(line, ":"); ok {
			folders = append(folders, folder)
			allowed[folder] = strings.Fields(deps)
		}
	}
	return folders, allowed
}

// layerOffences judges lines of "package import import …" as go list prints them.
func layerOffences(listing string, tests bool) (offences []string) {
	folders, allowed := rules(layers)
	testFolders, testAllowed := rules(testLayers)
	short := func(path string) string {
		if path == module {
			return "tenure"
		}
		return strings.TrimPrefix(path, module+"/")
	}
	for line := range strings.SplitSeq(strings.TrimSpace(listing), "\n") {
		f := strings.Fields(line)
		pkg := short(f[0])
		folder := longest(pkg, folders)
		if folder == "" {
			offences = append(offences, "package "+pkg+" is in no folder of layers")
			continue
		}
		may := append([]string{folder}, allowed[folder]...)
		if tests {
			may = append(may, testAllowed[longest(pkg, testFolders)]...)
		}
		for _, imp := range f[1:] {
			if imp == module || strings.HasPrefix(imp, module+"/") {
				dep := short(imp)
				if longest(dep, may) == "" || !tests && strangers(pkg, dep) {
					offences = append(offences, pkg+" may not import "+dep)
				}
			}
			if !tests && longest(pkg, pure) != "" && slices.Contains(impure, imp) && exempt[pkg] != imp {
				offences = append(offences, pkg+" is pure and may not import "+imp)
			}
		}
	}
	return offences
}

// strangers reports whether two packages of one folder are to know nothing of each other.
func strangers(pkg, dep string) bool {
	for folder, exceptions := range apart {
		if within(pkg, folder) && within(dep, folder) && pkg != dep && !slices.Contains(exceptions, pkg+" "+dep) {
			return true
		}
	}
	return false
}

func TestPurePackagesLookAtNothing(t *testing.T) {
	for _, pkg := range pure {
		err := filepath.WalkDir(pkg, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, offence := range purityOffences(t, path, string(src)) {
				t.Error(offence)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// purityOffences finds goroutines, channel waits and clock readings in a file.
func purityOffences(t *testing.T, path, src string) (offences []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	clock := "" // the name under which the file knows package time
	for _, imp := range file.Imports {
		if imp.Path.Value == `"time"` {
			clock = "time"
			if imp.Name != nil {
				clock = imp.Name.Name
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				offences = append(offences, fset.Position(n.Pos()).String()+": goroutines and channels belong in package driver and above")
			}
		case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
			offences = append(offences, fset.Position(n.Pos()).String()+": goroutines and channels belong in package driver and above")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(clockCalls, n.Sel.Name) {
				offences = append(offences, fset.Position(n.Pos()).String()+": time."+n.Sel.Name+": take the time as an argument")
			}
		}
		return true
	})
	return offences
}

// TestLayersHasTeeth plants offences and wants each one found.
func TestLayersHasTeeth(t *testing.T) {
	const in = module + "/internal/"
	for _, c := range []struct {
		listing, want string
		tests         bool
	}{
		{in + "state/kv " + in + "member/node", "internal/state/kv may not import internal/member/node", false},
		{in + "core/replica sync/atomic", "internal/core/replica is pure and may not import sync/atomic", false},
		{in + "machine " + module, "internal/machine may not import tenure", false},
		{module + "/unheard-of fmt", "package unheard-of is in no folder of layers", false},
		{in + "protocol/flease " + in + "protocol/disklease", "internal/protocol/flease may not import internal/protocol/disklease", false},
		{in + "protocol/flease " + in + "machines", "internal/protocol/flease may not import internal/machines", false},
		{module + "/server " + in + "lab/sim", "server may not import internal/lab/sim", false},
		{module + "/broadcast " + module + "/server", "broadcast may not import server", true},
		{module + "/cmd/tenure " + in + "lab/stage", "cmd/tenure may not import internal/lab/stage", false},
	} {
		if got := layerOffences(c.listing, c.tests); !slices.Contains(got, c.want) {
			t.Errorf("%q: offences %q, want %q", c.listing, got, c.want)
		}
	}
	if got := layerOffences(in+"core/replica "+in+"core/placement "+in+"wire", false); got != nil {
		t.Errorf("a replica places its read leases, got %q", got)
	}
	if got := layerOffences(module+"/server testing "+in+"lab/sim", true); got != nil {
		t.Errorf("a test may simulate, got %q", got)
	}
	if got := layerOffences(module+"/cmd/tenure-lab "+in+"lab/sim", false); got != nil {
		t.Errorf("the command of the lab may simulate, got %q", got)
	}
	shipped := "fmt\n" + in + "machine\n" + in + "lab/sim\n" + in + "labour\n" + module + "/cmd/tenure\n"
	if got := shippedLab(shipped); !slices.Equal(got, []string{"cmd/tenure ships internal/lab/sim"}) {
		t.Errorf("a shipped command with a simulator in it: got %q", got)
	}
	sources := map[string]string{
		"package p\nimport \"time\"\nvar x = time.Now()":                   "p.go:3:9: time.Now: take the time as an argument",
		"package p\nimport clk \"time\"\nvar x = clk.Now()":                "p.go:3:9: time.Now: take the time as an argument",
		"package p\nfunc f() { go f() }":                                   "p.go:2:12: goroutines and channels belong in package driver and above",
		"package p\nfunc f(c chan int) { select { case <-c: } }":           "p.go:2:22: goroutines and channels belong in package driver and above",
		"package p\nfunc f(c chan int) { <-c }":                            "p.go:2:22: goroutines and channels belong in package driver and above",
		"package p\nimport \"time\"\nfunc f() { time.Sleep(time.Second) }": "p.go:3:12: time.Sleep: take the time as an argument",
	}
	for src, want := range sources {
		if got := purityOffences(t, "p.go", src); !slices.Contains(got, want) {
			t.Errorf("%q: offences %q, want %q", src, got, want)
		}
	}
	if got := purityOffences(t, "p.go", "package p\nimport \"time\"\nconst d = time.Second"); got != nil {
		t.Errorf("durations are no offence, got %q", got)
	}
}
