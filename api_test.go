package tenure_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/golden"
)

// The public packages are those outside of internal, cmd and examples. api/PACKAGE.txt has the
// exported names of each, one a line in the manner of Go's own api/*.txt: a diff of these files
// shows a change of the API in review. Each line counts as one name. That is a constant, a
// variable, a function or a type, a field of a struct, or a method of a type or interface.
// Methods that a type gets from an unexported type that it embeds count, too.

// mostNames is how many names all public packages may have, those of generated code left out. It was 250
// until work once a period, Lease.Context, TryDo and ErrHeld needed room, 280 until users did, and 286 until a program's
// own traces did.
const mostNames = 287

// generated are the public packages that a generator writes. Their names are not counted.
var generated = []string{"api/readleasepb"}

func TestAPI(t *testing.T) {
	var names int
	var leaks []string
	files := map[string]bool{}
	for _, p := range publicPackages(t) {
		lines, leaking := surface(p)
		leaks = append(leaks, leaking...)
		if !slices.Contains(generated, p.path) {
			names += len(lines)
			t.Logf("%s has %d exported names", p.path, len(lines))
		}
		file := filepath.Join("api", strings.ReplaceAll(p.path, "/", "-")+".txt")
		files[file] = true
		if golden.Rewrites() {
			if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		for _, change := range changes(strings.Split(strings.TrimSpace(string(golden)), "\n"), lines) {
			t.Errorf("%s: %s: if that is meant, go test . -run TestAPI -rewrite", p.path, change)
		}
	}
	old, err := filepath.Glob("api/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range old {
		if !files[file] {
			t.Errorf("%s is of a package that is not there", file)
		}
	}
	for _, leak := range leaks {
		t.Error(leak)
	}
	if names > mostNames {
		t.Errorf("%d exported names, want at most %d", names, mostNames)
	}
}

// changes says how an API differs from what it was.
func changes(was, is []string) (out []string) {
	for _, line := range was {
		if !slices.Contains(is, line) {
			out = append(out, "lost "+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			out = append(out, "new "+line)
		}
	}
	return out
}

// public is a package with its types.
type public struct {
	path  string // from the root of the module; of the root, tenure
	pkg   *types.Package
	files []*ast.File
	info  *types.Info
}

// publicPackages checks the types of all public packages.
func publicPackages(t *testing.T) (all []public) {
	t.Helper()
	out, err := listing()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	var ours [][]string
	for line := range strings.Lines(out) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[columns[0]] = columns[1]
		path := strings.TrimPrefix(columns[0], module+"/")
		if path == module {
			path = "tenure"
		} else if path == columns[0] || longest(path, []string{"internal", "cmd", "examples"}) != "" {
			continue
		}
		ours = append(ours, append([]string{path, columns[0]}, columns[2:]...))
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, columns := range ours {
		var files []*ast.File
		for name := range strings.FieldsSeq(columns[3]) {
			file, err := parser.ParseFile(fset, filepath.Join(columns[2], name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		all = append(all, publicPackage(t, columns[0], columns[1], fset, files, imports))
	}
	return all
}

func publicPackage(t *testing.T, path, importPath string, fset *token.FileSet, files []*ast.File, imports types.Importer) public {
	t.Helper()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	pkg, err := (&types.Config{Importer: imports}).Check(importPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	return public{path, pkg, files, info}
}

// sources imports packages that are given as source.
type sources map[string]*types.Package

func (s sources) Import(path string) (*types.Package, error) {
	if s[path] == nil {
		return nil, fmt.Errorf("no package %s", path)
	}
	return s[path], nil
}

// TestAPIHasTeeth: a package with each kind of offence.
func TestAPIHasTeeth(t *testing.T) {
	fset, known := token.NewFileSet(), sources{}
	check := func(path, source string) public {
		file, err := parser.ParseFile(fset, path+".go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p := publicPackage(t, strings.TrimPrefix(path, module+"/"), path, fset, []*ast.File{file}, known)
		known[path] = p.pkg
		return p
	}
	check(module+"/internal/hid", `package hid
		type ID uint64
		type Set struct{ Size int }
		func (Set) Has(ID) bool { return false }
		type Any interface{ Is() bool }
		type Of[T any] struct{}
	`)
	p := check(module+"/p", `package p
		import "`+module+`/internal/hid"
		const Fine = 1
		const Typed hid.ID = 2
		var Inferred = hid.Set{}
		var Func func(from int, to *[]hid.ID) (n int, err error)
		func Takes(m map[hid.ID]string) {}
		func Gives() (s chan<- hid.Set) { return nil }
		func Generic[T hid.Any](t T) {}
		func Argument() hid.Of[int] { return hid.Of[int]{} }
		func private() hid.ID { return 0 }
		type Alias = hid.Set
		type short = hid.ID
		type Option func(*settings)
		type Shortened func(*short)
		type Defined hid.ID
		type settings struct{ id hid.ID; Name string }
		type Clean struct{ Name string; id hid.ID; settings }
		func (c Clean) Value(x int) (y string) { return "" }
		func (c *Clean) Pointer(xs ...int) {}
		type Field struct{ IDs []hid.ID; Pair struct{ A, B hid.ID } }
		type Embeds struct{ hid.Set }
		type Promotes struct{ inner }
		type inner struct{ ID hid.ID }
		func (inner) Method(hid.Set) {}
		type Face interface{ Call(hid.ID) error; Fine() }
		type Wide interface{ hid.Any }
	`)
	lines, leaks := surface(p)
	want := []string{
		"const Fine = 1",
		"const Typed hid.ID = 2",
		"func Argument() hid.Of[int]",
		"func Generic[T hid.Any](t T)",
		"func Gives() chan<- hid.Set",
		"func Takes(map[hid.ID]string)",
		"method (*Clean) Pointer(...int)",
		"method (Clean) Value(int) string",
		"method (Promotes) Method(hid.Set)",
		"type Alias = hid.Set",
		"type Clean struct",
		"type Clean struct, Name string",
		"type Defined uint64",
		"type Embeds struct",
		"type Embeds struct, embedded hid.Set",
		"type Face interface",
		"type Face interface, Call(hid.ID) error",
		"type Face interface, Fine()",
		"type Field struct",
		"type Field struct, IDs []hid.ID",
		"type Field struct, Pair struct{A hid.ID; B hid.ID}",
		"type Option func(*settings)",
		"type Promotes struct",
		"type Promotes struct, ID hid.ID",
		"type Shortened func(*short)",
		"type Wide interface",
		"type Wide interface, Is() bool",
		"var Func func(int, *[]hid.ID) (int, error)",
		"var Inferred hid.Set",
	}
	for _, c := range changes(want, lines) {
		t.Error("surface: " + c)
	}
	leaking := []string{
		"Typed", "Inferred", "Func", "Takes", "Gives", "Generic", "Argument", "Alias", "Shortened", "Defined", "Field", "Embeds", "Promotes", "Face", "Wide",
	}
	for _, leak := range leaks {
		if !slices.Contains(leaking, strings.Fields(leak)[1]) {
			t.Errorf("no leak: %s", leak)
		}
	}
	for _, name := range leaking {
		if !slices.ContainsFunc(leaks, func(leak string) bool { return strings.HasPrefix(leak, "p "+name+" mentions internal/hid.") }) {
			t.Errorf("p.%s mentions an internal type, and that is no leak of %q", name, leaks)
		}
	}
	if got, want := changes([]string{"a", "b int"}, []string{"a", "b string", "c"}), []string{"lost b int", "new b string", "new c"}; !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
}
