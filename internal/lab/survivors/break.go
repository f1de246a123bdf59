package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// brk is a place in a package where something may go another way.
type brk struct {
	id    int    // what chosen is called with, from 1
	where string // for people
	what  string // is done, for people
}

// broken is a package with all its breaks.
type broken struct {
	breaks  []brk
	sources map[string][]byte // by the path of the file that they stand in for
}

// breakPackage puts breaks into the files of a package, without its tests. A break is a condition that
// is always or never so, one side of && and || that does not count, a limit that is one off, or a
// statement that is left out. A String or Error method decides nothing, and has none.
func breakPackage(dir string, only *regexp.Regexp) (*broken, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p, err := build.Default.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	b := &broken{sources: map[string][]byte{}}
	for _, name := range p.GoFiles {
		if !only.MatchString(name) {
			continue
		}
		path := filepath.Join(dir, name)
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := b.add(path, src); err != nil {
			return nil, err
		}
	}
	if len(b.breaks) == 0 {
		return nil, fmt.Errorf("nothing to break in %s: name the directory of a package, and files of it", dir)
	}
	b.sources[filepath.Join(dir, "zz_broken.go")] = []byte("package " + p.Name + "\n\n" + fmt.Sprintf(asks, len(b.breaks)+1))
	return b, nil
}

// asks is the file that is added to a broken package, behind its package clause. Processes that a test starts are broken like
// itself, for a file names the break. The breaks that are reached are noted in another file, if that
// exists.
const asks = `import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

var (
	brokenID = func() int {
		p, _ := os.ReadFile(brokenFile)
		id, _ := strconv.Atoi(strings.TrimSpace(string(p)))
		return id
	}()
	brokenPassed [%d]atomic.Bool
	brokenNotes  = func() *os.File {
		f, _ := os.OpenFile(brokenFile+".passed", os.O_APPEND|os.O_WRONLY, 0)
		return f
	}()
)

func chosen(id int) bool {
	if brokenNotes != nil && !brokenPassed[id].Load() && !brokenPassed[id].Swap(true) {
		brokenNotes.WriteString(strconv.Itoa(id) + "\n")
	}
	return id == brokenID
}
`

// insertion is a text that is put into a file. Of several at one place, those that end something come
// first, the innermost before the others; then come those that begin something, the outermost first.
type insertion struct {
	at, order int
	text      string
}

func (b *broken) add(path string, src []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	text := func(n ast.Node) string { return string(src[offset(n.Pos()):offset(n.End())]) }
	var list []insertion
	around := func(n ast.Node, before, after string) {
		k := len(list) + 1
		list = append(list, insertion{offset(n.Pos()), k, before}, insertion{offset(n.End()), -k, after})
	}
	next := func(at token.Pos, what string, n ast.Node) int {
		id := len(b.breaks) + 1
		b.breaks = append(b.breaks, brk{id, fmt.Sprintf("%s:%d", filepath.Base(path), fset.Position(at).Line), what + ": " + short(text(n))})
		return id
	}
	omit := func(statements []ast.Stmt) {
		for _, s := range statements {
			if mayGo(s) {
				around(s, fmt.Sprintf("if !chosen(%d) { ", next(s.Pos(), "left out", s)), " }")
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Name.Name != "String" && n.Name.Name != "Error"
		case *ast.GenDecl:
			return n.Tok == token.VAR
		case *ast.IfStmt:
			never, always := next(n.Cond.Pos(), "never", n.Cond), next(n.Cond.Pos(), "always", n.Cond)
			around(n.Cond, fmt.Sprintf("chosen(%d) || !chosen(%d) && (", always, never), ")")
		case *ast.BlockStmt:
			omit(n.List)
		case *ast.CaseClause:
			omit(n.Body)
		case *ast.CommClause:
			omit(n.Body)
		case *ast.BinaryExpr:
			switch n.Op {
			case token.LAND:
				left, right := next(n.OpPos, "only the right side of", n), next(n.OpPos, "only the left side of", n)
				around(n, "(", ")")
				around(n.X, fmt.Sprintf("(chosen(%d) || (", left), "))")
				around(n.Y, fmt.Sprintf("(chosen(%d) || (", right), "))")
			case token.LOR:
				left, right := next(n.OpPos, "only the right side of", n), next(n.OpPos, "only the left side of", n)
				around(n, "(", ")")
				around(n.X, fmt.Sprintf("(!chosen(%d) && (", left), "))")
				around(n.Y, fmt.Sprintf("(!chosen(%d) && (", right), "))")
			case token.LSS, token.GTR:
				if twice(n) {
					around(n, "(", fmt.Sprintf(" || chosen(%d) && %s == %s)", next(n.OpPos, "or equal", n), text(n.X), text(n.Y)))
				}
			case token.LEQ, token.GEQ:
				if twice(n) {
					around(n, "(", fmt.Sprintf(" && !(chosen(%d) && %s == %s))", next(n.OpPos, "not if equal", n), text(n.X), text(n.Y)))
				}
			}
		}
		return true
	})
	slices.SortStableFunc(list, func(x, y insertion) int {
		begins := func(i insertion) int {
			if i.order > 0 {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(begins(x), begins(y)), cmp.Compare(x.order, y.order))
	})
	var out []byte
	last := 0
	for _, i := range list {
		out = append(append(out, src[last:i.at]...), i.text...)
		last = i.at
	}
	b.sources[path] = append(out, src[last:]...)
	return nil
}

// twice reports whether an expression may be evaluated a second time.
func twice(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		u, unary := n.(*ast.UnaryExpr)
		_, function := n.(*ast.FuncLit)
		ok = ok && !function && !(unary && u.Op == token.ARROW)
		return ok
	})
	return ok
}

// mayGo reports whether a package may still build without a statement.
func mayGo(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		name, ok := call.Fun.(*ast.Ident)
		return !ok || name.Name != "panic" // which may end a function
	case *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.GoStmt:
		return true
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE || s.Tok == token.BREAK
	case *ast.ReturnStmt:
		return len(s.Results) == 0
	}
	return false
}

// short is a text on one line, and not too long for it.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return s
}
