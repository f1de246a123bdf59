package tenure_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
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
	"testing"
)

// snippet is Go of a page: a whole program, or statements.
type snippet struct {
	where string
	code  string
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func snippets(t *testing.T) (all []snippet) {
	t.Helper()
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range goBlock.FindAllSubmatchIndex(text, -1) {
			line := strings.Count(string(text[:at[2]]), "\n") + 1
			all = append(all, snippet{fmt.Sprintf("%s:%d", page, line), string(text[at[2]:at[3]])})
		}
	}
	return all
}

func (s snippet) whole() bool { return strings.HasPrefix(s.code, "package ") }

// imports are the packages that snippets may name, by their names.
var imports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "net": "net", "testing": "testing", "time": "time", "synctest": "testing/synctest",
	"tenure": module, "engine": module + "/engine", "etcd": module + "/engine/etcd", "file": module + "/engine/file", "redis": module + "/engine/redis",
	"flease": module + "/engine/flease", "fence": module + "/fence", "leasetest": module + "/leasetest", "broadcast": module + "/broadcast",
	"server": module + "/server",
}

// program makes a file of a snippet, with what the page's reader has: a context, a leaser and so on.
func (s snippet) program() string {
	if s.whole() {
		return s.code
	}
	body := strings.ReplaceAll(s.code, "…", "")
	scope := "func _(ctx context.Context, leaser tenure.Leaser, backup func(context.Context, uint64) error, ln net.Listener, from broadcast.Position, t *testing.T) error"
	var b strings.Builder
	b.WriteString("package page\n")
	for name, path := range imports {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(scope + " " + body) {
			fmt.Fprintf(&b, "import %s %q\n", name, path)
		}
	}
	fmt.Fprintf(&b, "%s {\n{\n%s\n}\nreturn nil\n}\n", scope, body)
	return b.String()
}

// mistakes are what the compiler does not take. A snippet need not use all that it declares.
func mistakes(code string, imports types.Importer, fset *token.FileSet) (all []error) {
	file, err := parser.ParseFile(fset, "page.go", code, parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	_, _ = (&types.Config{Importer: imports, Error: func(err error) {
		if unused, ok := errors.AsType[types.Error](err); !ok || !unused.Soft {
			all = append(all, err)
		}
	}}).Check("page", fset, []*ast.File{file}, nil)
	return all
}

// The Go of README.md and docs/*.md compiles, and whole programs run.
func TestPagesCompile(t *testing.T) {
	out, err := listing()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(out) {
		columns := strings.Split(line, "\t")
		exports[columns[0]] = columns[1]
	}
	for path := range strings.FieldsSeq("testing testing/synctest") {
		out, err := exec.Command("go", "list", "-export", "-f", "{{.Export}}", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		exports[path] = strings.TrimSpace(string(out))
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var programs int
	all := snippets(t)
	for _, s := range all {
		for _, mistake := range mistakes(s.program(), compiled, fset) {
			t.Errorf("%s: %v", s.where, mistake)
		}
		if !s.whole() {
			continue
		}
		programs++
		path := filepath.Join(t.TempDir(), "main.go")
		stores := t.TempDir() // for a mount that a test has not
		code := strings.ReplaceAll(s.code, "file:///mnt/shared/leases", "file://"+stores)
		if err := os.WriteFile(path, []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
		run := exec.Command("go", "run", path)
		run.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
		out, err := run.CombinedOutput()
		var want []string
		for line := range strings.Lines(s.code) {
			if _, said, ok := strings.Cut(line, "// prints "); ok {
				want = append(want, strings.TrimSpace(said))
			}
		}
		if err != nil || len(want) == 0 || !slices.Equal(strings.Split(strings.TrimSpace(string(out)), "\n"), want) {
			t.Errorf("%s: prints %q, %v; want %q", s.where, out, err, want)
		}
	}
	if len(all) < 8 || programs < 1 {
		t.Errorf("the pages have %d pieces of Go, %d of them whole; want at least 8 and 1", len(all), programs)
	}
	for code, want := range map[string]string{
		"x := 1": "", "x, err := leaser.Odd()": "no field or method Odd", "engine.Opened(ctx)": "undefined: engine.Opened", "if {": "missing condition",
		"fence.File{Pat: 1}.Do(1, nil)": "unknown field Pat",
	} {
		if got := fmt.Sprint(mistakes(snippet{code: code}.program(), compiled, fset)); want == "" && got != "[]" || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %q", code, got, want)
		}
	}
}

// Each public package has an example that runs.
func TestExamples(t *testing.T) {
	for _, p := range publicPackages(t) {
		dir := p.path
		if dir == "tenure" {
			dir = "."
		}
		if examples(t, dir) == 0 {
			t.Errorf("%s has no example with an output: write one in %s/example_test.go", p.path, dir)
		}
	}
	if n := examples(t, "api"); n != 0 {
		t.Errorf("a folder without Go has %d examples", n)
	}
}

// examples counts those that go test runs.
func examples(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range doc.Examples(file) {
			if example.Output != "" {
				n++
			}
		}
	}
	return n
}
