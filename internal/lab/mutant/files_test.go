package mutant

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unplanted are files of the product that have functions and no planted bug, and why.
var unplanted = map[string]string{
	"cmd/tenure/main.go":                 "it calls another function, and no more",
	"cmd/tenure/snapshot.go":             "it names commands, and no more",
	"internal/member/etcdapi/compact.go": "it hands a request on, and no more",
	"internal/protocol/flease/trace.go":  "nothing but simulations reads it",
}

// notShipped reports whether a file is none that users rely on: simulations, measurements, tools, kits for tests,
// and parts for other systems than that of the tests.
func notShipped(path string) bool {
	for _, part := range []string{"lab", "tenure-lab", "tools", "compat", "examples", "testdata", "peertest", "registertest", "filetest", "waltest"} {
		if slices.Contains(strings.Split(filepath.ToSlash(path), "/"), part) {
			return true
		}
	}
	name := filepath.Base(path)
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, "_darwin.go") ||
		strings.HasSuffix(name, "_other.go")
}

// Each file of the product has a planted bug, or a reason why not.
func TestEveryFileHasOne(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	list, err := everywhere(root)
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string]bool{}
	for _, m := range list {
		for _, e := range m.edits {
			planted[e.Path] = true
		}
	}
	// Another module plays its bugs by itself.
	others, err := filepath.Glob(filepath.Join(root, "k8s/testdata/bugs/*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range others {
		_, edits, err := Edits(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range edits {
			planted[e.Path] = true
		}
	}
	err = filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		path, _ := filepath.Rel(root, at)
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || notShipped(path) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), at, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		does := slices.ContainsFunc(file.Decls, func(d ast.Decl) bool { f, ok := d.(*ast.FuncDecl); return ok && f.Body != nil && len(f.Body.List) > 0 })
		switch why := unplanted[path]; {
		case does && !planted[path] && why == "":
			t.Errorf("%s has no planted bug: break a rule of it in testdata/mutants, or say in unplanted why that cannot be noticed", path)
		case (planted[path] || !does) && why != "":
			t.Errorf("%s needs no excuse: take it out of unplanted", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
