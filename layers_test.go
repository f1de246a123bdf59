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

// layers says what each package may import from this module, lowest first. It
// is a statement of policy: change it when the architecture changes, with the
// reason in ARCHITECTURE.md, and not to make a build pass.
const layers = `
tenure:
leasetest: tenure
fence:
chart:

machine:

kv:
keyspan:
wire:
quorumregister: machine
disklease: machine wire
flease: machine
placement: machine
ycsb:
quorumlease: machine
asynclease: machine
fastct: machine
abcast: machine asynclease fastct wire
replica: machine kv keyspan placement quorumlease wire
seen: replica

clock: machine
driver: machine clock
wal:
wal/waltest: wal
peer: machine
peer/peertest:
broadcast: machine asynclease fastct abcast clock driver wal peer wire
broadcast/rival: machine peer wal
watch: kv
node: machine clock driver wal peer kv keyspan placement quorumlease replica seen watch
register: machine clock driver quorumregister
register/registertest: machine register quorumregister
register/file: machine driver disklease register quorumregister
register/filetest: register/file
register/redis: machine register quorumregister

readleasepb:
etcdapi: kv watch quorumlease readleasepb
server: machine node etcdapi kv peer placement quorumlease
engine/stint: tenure clock machine
engine/etcd: tenure clock machine engine/stint
engine/storage: tenure clock machine engine/stint driver quorumregister disklease register
engine/file: tenure clock machine quorumregister register register/file engine/storage
engine/redis: tenure clock machine register register/redis engine/storage
engine/flease: tenure clock machine engine/stint driver peer flease wal
engine: tenure engine/etcd engine/file engine/flease engine/redis

sim: machine
sim/simtest: sim
sim/world: sim/simtest
sim/fleaseworld: tenure machine clock engine/flease sim/world sim/world/network sim/world/disk
sim/world/network: sim/world
sim/world/disk: sim/world wal/waltest
sim/world/posix: sim/world register/file
sim/world/holders: tenure sim/world
sim/memberworld: tenure clock etcdapi machine node peer quorumlease readleasepb replica server wal engine/etcd sim/world sim/world/disk sim/world/holders sim/world/network wal/waltest
sim/storageworld: clock machine register register/file engine/storage sim/world sim/world/holders sim/world/posix
sim/redisworld: clock machine register register/redis engine/redis engine/storage sim/world sim/world/holders sim/world/network
sim/mutant:
sim/replicasim: machine sim kv keyspan placement quorumlease replica seen watch
sim/quorumregistersim: machine sim quorumregister register/registertest
sim/diskleasesim: machine sim quorumregister disklease
sim/stage: machine sim
sim/asyncleasesim: machine sim asynclease
sim/fastctsim: machine sim abcast fastct
sim/castworld: broadcast machine sim/world sim/world/disk sim/world/network wal
sim/abcastsim: machine sim abcast asynclease fastct sim/fastctsim
sim/fleasesim: machine sim flease
sim/fleasescale: machine sim flease
sim/widearea: machine quorumlease replica sim sim/replicasim ycsb
sim/widearea/live: node peer/peertest sim/widearea

cmd/tenure: tenure broadcast broadcast/rival peer chart clock machine engine engine/file engine/redis engine/storage register register/file node server etcdapi readleasepb quorumlease sim sim/replicasim sim/quorumregistersim sim/diskleasesim sim/fleasesim sim/asyncleasesim sim/fastctsim sim/widearea sim/widearea/live sim/abcastsim engine/flease sim/fleasescale
examples/cache: tenure clock machine register register/file quorumregister engine/file engine/storage fence
examples/counter: machine broadcast
examples/hierarchy: tenure clock machine engine/file
examples/leader: tenure engine/file fence
examples/lockword: tenure engine/file
examples/membership:
examples/pool: tenure engine
examples/primary: tenure engine/flease
`

// pure packages neither block nor look at the world: time, randomness and
// messages are arguments.
var pure = []string{"machine", "kv", "keyspan", "wire", "quorumlease", "replica", "seen", "quorumregister", "disklease", "flease", "placement", "ycsb", "asynclease", "fastct", "abcast"}

var impure = []string{
	"context", "crypto/rand", "log", "log/slog", "math/rand", "math/rand/v2",
	"net", "os", "runtime", "sync", "sync/atomic", "syscall", "testing",
}

// exempt lists the one impure import that a pure package may have, see
// ARCHITECTURE.md: readers of kv walk version chains behind an atomic head.
var exempt = map[string]string{"kv": "sync/atomic"}

var clockCalls = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep"}

func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, offence := range layerOffences(string(out)) {
		t.Error(offence)
	}
}

// layerOffences judges lines of "package import import …" as go list prints them.
func layerOffences(listing string) (offences []string) {
	allowed := map[string][]string{}
	for line := range strings.SplitSeq(strings.TrimSpace(layers), "\n") {
		if pkg, deps, ok := strings.Cut(line, ":"); ok {
			allowed[pkg] = strings.Fields(deps)
		}
	}
	short := func(path string) string {
		if path == module {
			return "tenure"
		}
		return strings.TrimPrefix(path, module+"/")
	}
	for line := range strings.SplitSeq(strings.TrimSpace(listing), "\n") {
		f := strings.Fields(line)
		pkg := short(f[0])
		deps, ok := allowed[pkg]
		if !ok {
			offences = append(offences, "package "+pkg+" has no line in layers")
		}
		for _, imp := range f[1:] {
			ours := imp == module || strings.HasPrefix(imp, module+"/")
			switch {
			case ours && !slices.Contains(deps, short(imp)):
				offences = append(offences, pkg+" may not import "+short(imp))
			case !ours && slices.Contains(pure, pkg) && slices.Contains(impure, imp) && exempt[pkg] != imp:
				offences = append(offences, pkg+" is pure and may not import "+imp)
			}
		}
	}
	return offences
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
	listings := map[string]string{
		module + "/kv " + module + "/node":  "kv may not import node",
		module + "/replica sync/atomic":     "replica is pure and may not import sync/atomic",
		module + "/machine " + module:       "machine may not import tenure",
		module + "/unheard-of fmt":          "package unheard-of has no line in layers",
		module + "/kv " + module + "/kvtwo": "kv may not import kvtwo",
	}
	for listing, want := range listings {
		if got := layerOffences(listing); !slices.Contains(got, want) {
			t.Errorf("%q: offences %q, want %q", listing, got, want)
		}
	}
	sources := map[string]string{
		"package p\nimport \"time\"\nvar x = time.Now()":                   "p.go:3:9: time.Now: take the time as an argument",
		"package p\nimport clk \"time\"\nvar x = clk.Now()":                "p.go:3:9: time.Now: take the time as an argument",
		"package p\nfunc f() { go f() }":                                   "p.go:2:12: goroutines and channels belong in package driver and above",
		"package p\nfunc f(c chan int) { select { case <-c: } }":           "p.go:2:22: goroutines and channels belong in package driver and above",
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
