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
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// An option that one layer forgets to pass on to the next compiles, and the product does as if
// the user had not asked. Two rules find it in the source:
//
//   - Each field of a struct of options is read by code that acts on it. Code that fills in a
//     default or judges a value does not count.
//   - A struct that is made of options takes each option that it has a field for: one of the
//     same name and type.
var (
	structs   = regexp.MustCompile(`(Config|Options|Settings|Limits|Timing|Controls)$|^(config|options|settings|limits|timing|controls)$`)
	preparing = regexp.MustCompile(`(?i)default|valid|check|normal`) // functions
)

func TestOptionsAreUsed(t *testing.T) {
	for _, name := range unused(load(t)) {
		t.Errorf("%s is an option that nothing acts on: pass it on to the code that should, or remove it", name)
	}
}

func TestOptionsArePassedOn(t *testing.T) {
	for _, dropped := range droppedOptions(load(t)) {
		t.Errorf("%s: pass it on", dropped)
	}
}

// TestOptionsHasTeeth: both rules find what breaks them.
func TestOptionsHasTeeth(t *testing.T) {
	const source = `package p
		type Config struct{ Used, Unused, Filled, Judged, Addressed int }
		type Options struct{ Used, Filled, Judged int; private bool }
		func (c *Config) fill() { if c.Filled == 0 { c.Filled = 1 }; set(&c.Addressed) }
		func (c Config) validate() bool { return c.Judged > 0 }
		func set(x *int) {}
		func act(o Options) int { return o.Used + o.Filled + o.Judged }
		func open(c Config) int { return act(Options{Used: c.Used, private: true}) }
		func open2(c Config) int { o := Options{Used: c.Used, Judged: 2}; o.Filled = 3; return act(o) }
	`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := checkTypes(t, "p", fset, []*ast.File{file}, nil)
	want := []string{"p Config.Addressed", "p Config.Filled", "p Config.Judged", "p Config.Unused", "p Options.private"}
	if got := unused([]checked{p}); !slices.Equal(got, want) {
		t.Errorf("unused options %q, want %q", got, want)
	}
	want = []string{"p.go:8:40: a p.Options is made without Filled of Config", "p.go:8:40: a p.Options is made without Judged of Config"}
	if got := droppedOptions([]checked{p}); !slices.Equal(got, want) {
		t.Errorf("dropped options %q, want %q", got, want)
	}
}

// checked is a package with its types.
type checked struct {
	path  string // from the root of the module
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// listing has a line for each package: its path, the file of its types, its folder and its files.
var listing = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}", "./...").Output()
	return string(out), err
})

// load checks the types of all packages that ship.
func load(t *testing.T) []checked {
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
		if path, ok := strings.CutPrefix(columns[0], module+"/"); ok && !strings.HasPrefix(path, "internal/lab") {
			ours = append(ours, append([]string{path}, columns[2:]...))
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var all []checked
	for _, columns := range ours {
		var files []*ast.File
		for name := range strings.FieldsSeq(columns[2]) {
			file, err := parser.ParseFile(fset, filepath.Join(columns[1], name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		all = append(all, checkTypes(t, columns[0], fset, files, imports))
	}
	return all
}

func checkTypes(t *testing.T, path string, fset *token.FileSet, files []*ast.File, imports types.Importer) checked {
	t.Helper()
	info := &types.Info{
		Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	if _, err := (&types.Config{Importer: imports}).Check(path, fset, files, info); err != nil {
		t.Fatal(err)
	}
	return checked{path, fset, files, info}
}

// unused lists the options that break the first rule, sorted.
func unused(all []checked) (names []string) {
	used := map[string]bool{} // by the place of the field's declaration: each package has objects of its own
	for _, p := range all {
		for fn := range p.functions() {
			if preparing.MatchString(fn.Name.Name) {
				continue
			}
			var within []map[*types.Var]bool // fields assigned by the ifs around
			var visit func(n ast.Node) bool
			visit = func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.IfStmt:
					within = append(within, p.assigned(n.Body))
					for _, child := range []ast.Node{n.Init, n.Cond, n.Body} {
						if child != nil && !isNil(child) {
							ast.Inspect(child, visit)
						}
					}
					within = within[:len(within)-1]
					if n.Else != nil {
						ast.Inspect(n.Else, visit)
					}
					return false
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						if x, ok := left.(*ast.SelectorExpr); ok {
							ast.Inspect(x.X, visit)
						} else {
							ast.Inspect(left, visit)
						}
					}
					for _, right := range n.Rhs {
						ast.Inspect(right, visit)
					}
					return false
				case *ast.UnaryExpr:
					if x, ok := n.X.(*ast.SelectorExpr); ok && n.Op == token.AND {
						ast.Inspect(x.X, visit)
						return false
					}
				case *ast.SelectorExpr:
					if field := p.field(n); field != nil && !slices.ContainsFunc(within, func(set map[*types.Var]bool) bool { return set[field] }) {
						used[p.place(field)] = true
					}
				}
				return true
			}
			ast.Inspect(fn.Body, visit)
		}
	}
	for _, p := range all {
		for ident, object := range p.info.Defs {
			if _, ok := object.(*types.TypeName); !ok || !structs.MatchString(object.Name()) {
				continue
			}
			if s, ok := object.Type().Underlying().(*types.Struct); ok {
				for field := range s.Fields() {
					if !field.Embedded() && !used[p.place(field)] {
						names = append(names, fmt.Sprintf("%s %s.%s", p.path, ident.Name, field.Name()))
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

func isNil(n ast.Node) bool { s, ok := n.(ast.Stmt); return ok && s == nil }

// droppedOptions lists what breaks the second rule, sorted.
func droppedOptions(all []checked) (dropped []string) {
	for _, p := range all {
		for fn := range p.functions() {
			assigned := p.assigned(fn.Body)
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				literal, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				made := p.info.Types[literal].Type
				s, ok := made.Underlying().(*types.Struct)
				if !ok {
					return true
				}
				given, sources := p.given(literal)
				for source := range sources {
					if types.Identical(source.Type(), made) {
						continue
					}
					for option := range source.Type().Underlying().(*types.Struct).Fields() {
						for field := range s.Fields() {
							if field.Name() == option.Name() && types.AssignableTo(option.Type(), field.Type()) && !given[field.Name()] && !assigned[field] {
								dropped = append(dropped, fmt.Sprintf("%s: a %s is made without %s of %s", p.fset.Position(literal.Pos()), made, option.Name(), source.Name()))
							}
						}
					}
				}
				return true
			})
		}
	}
	slices.Sort(dropped)
	return dropped
}

// given lists the fields that a literal has values for, and the structs of options whose
// fields are in these values.
func (p checked) given(literal *ast.CompositeLit) (fields map[string]bool, sources map[*types.TypeName]bool) {
	fields, sources = map[string]bool{}, map[*types.TypeName]bool{}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return nil, nil // by position: all have values
		}
		fields[pair.Key.(*ast.Ident).Name] = true
		ast.Inspect(pair.Value, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok && p.field(x) != nil {
				from := p.info.Selections[x].Recv()
				if pointer, ok := from.Underlying().(*types.Pointer); ok {
					from = pointer.Elem()
				}
				if named, ok := from.(*types.Named); ok && structs.MatchString(named.Obj().Name()) {
					sources[named.Obj()] = true
				}
			}
			return true
		})
	}
	return fields, sources
}

func (p checked) functions() func(yield func(*ast.FuncDecl) bool) {
	return func(yield func(*ast.FuncDecl) bool) {
		for _, file := range p.files {
			for _, decl := range file.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil && !yield(fn) {
					return
				}
			}
		}
	}
}

// field is the field that x selects, or nil.
func (p checked) field(x *ast.SelectorExpr) *types.Var {
	if s := p.info.Selections[x]; s != nil && s.Kind() == types.FieldVal {
		return s.Obj().(*types.Var)
	}
	return nil
}

// place is where a field is declared. A package that imports it has another object for it, and
// knows no column.
func (p checked) place(field *types.Var) string {
	at := p.fset.Position(field.Pos())
	return fmt.Sprintf("%s:%d %s", at.Filename, at.Line, field.Name())
}

// assigned has the fields that n assigns.
func (p checked) assigned(n ast.Node) map[*types.Var]bool {
	set := map[*types.Var]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for _, left := range a.Lhs {
				if x, ok := left.(*ast.SelectorExpr); ok && p.field(x) != nil {
					set[p.field(x)] = true
				}
			}
		}
		return true
	})
	return set
}
