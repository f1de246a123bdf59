package mutant

import (
	"errors"
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
	"strings"
	"testing"
)

// TestEveryOneCompiles: a planted bug that does not compile is noticed by nothing, and no test would
// say so before it is played.
func TestEveryOneCompiles(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	list, err := everywhere(root)
	if err != nil {
		t.Fatal(err)
	}
	m := sourcesOf(t, root)
	for _, mutant := range list {
		if err := m.compile(mutant.edits); err != nil {
			name, _ := filepath.Rel(root, filepath.Join(mutant.dir, mutant.name))
			t.Errorf("%s does not compile: %v", name, err)
		}
	}
}

func TestWhatDoesNotCompile(t *testing.T) {
	m := sourcesOf(t, filepath.Join("..", "..", ".."))
	const path = "internal/lab/mutant/mutant.go"
	for _, tt := range []struct {
		what, before, after, err string
	}{
		{"fine", `want an edit"`, `want an edit, or two"`, ""},
		{"no such name", `want an edit")`, `want an edit" + nowhere)`, "undefined: nowhere"},
		{"a variable that is used no more", `return nil, fmt.Errorf("want an edit")`, `unused := 1`, "declared and not used: unused"},
		{"no Go", `return nil, fmt.Errorf("want an edit")`, `return (`, "expected"},
		{"another type", `return nil, fmt.Errorf("want an edit")`, `return nil, "want an edit"`, "does not implement error"},
	} {
		err := m.compile([]Edit{{Path: path, Before: tt.before, After: tt.after}})
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.err)
		}
	}
}

// module has the files of the packages of this module, and what they import.
type module struct {
	root     string
	fset     *token.FileSet
	imports  types.Importer
	packages map[string]*source // by directory
}

// source is a package. A function of a file that is not edited needs no body: only its type counts.
type source struct {
	path  string
	files map[string]*ast.File // by name
}

func sourcesOf(t *testing.T, root string) *module {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-export", "-f", `{{.ImportPath}}{{"\t"}}{{.Export}}{{"\t"}}{{if and .Module .Module.Main}}{{.Dir}}{{end}}{{"\t"}}{{join .GoFiles " "}}`, "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	m := &module{root: root, fset: token.NewFileSet(), packages: map[string]*source{}}
	exports := map[string]string{}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[columns[0]] = columns[1]
		if columns[2] == "" {
			continue
		}
		p := &source{columns[0], map[string]*ast.File{}}
		for _, name := range strings.Fields(columns[3]) {
			file, err := parser.ParseFile(m.fset, filepath.Join(columns[2], name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok {
					f.Body = nil
				}
			}
			p.files[name] = file
		}
		dir, err := filepath.Rel(absolute, columns[2])
		if err != nil {
			t.Fatal(err)
		}
		m.packages[filepath.ToSlash(dir)] = p
	}
	m.imports = importer.ForCompiler(m.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(exports[path])
	})
	return m
}

// compile returns an error if a file is not valid Go once it is edited. Files for other systems,
// and those in other languages, are not looked at.
func (m *module) compile(edits []Edit) error {
	texts := map[string]string{} // of edited files
	for _, e := range edits {
		dir, name := filepath.ToSlash(filepath.Dir(e.Path)), filepath.Base(e.Path)
		if m.packages[dir] == nil || m.packages[dir].files[name] == nil {
			continue
		}
		if texts[e.Path] == "" {
			raw, err := os.ReadFile(filepath.Join(m.root, e.Path))
			if err != nil {
				return err
			}
			texts[e.Path] = string(raw)
		}
		texts[e.Path] = strings.Replace(texts[e.Path], e.Before, e.After, 1)
	}
	edited := map[string]map[string]*ast.File{} // by directory and name
	for path, text := range texts {
		file, err := parser.ParseFile(m.fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if edited[dir] == nil {
			edited[dir] = map[string]*ast.File{}
		}
		edited[dir][filepath.Base(path)] = file
	}
	for dir, changed := range edited {
		p := m.packages[dir]
		var files []*ast.File
		for name, file := range p.files {
			if changed[name] == nil {
				files = append(files, file)
			}
		}
		for _, file := range changed {
			files = append(files, file)
		}
		var errs []error
		cfg := types.Config{Importer: m.imports, Error: func(err error) {
			var at types.Error
			if errors.As(err, &at) && texts[m.fset.Position(at.Pos).Filename] != "" { // the others' imports look unused
				errs = append(errs, err)
			}
		}}
		_, _ = cfg.Check(p.path, m.fset, files, nil) // all errors were told
		if len(errs) > 0 {
			return errs[0]
		}
	}
	return nil
}
