package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// broken is a place in a file, and what shall stand there instead.
type broken struct {
	file     string
	from, to int // bytes
	text     string
	line     int
	what     string // was done, for people
}

// source returns the file with the break.
func (b broken) source() ([]byte, error) {
	src, err := os.ReadFile(b.file)
	if err != nil {
		return nil, err
	}
	return append(append(src[:b.from:b.from], b.text...), src[b.to:]...), nil
}

// breaksIn returns all breaks of a package's files, without its tests.
func breaksIn(dir string, only *regexp.Regexp) (list []broken, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || base == "doc.go" || !only.MatchString(base) {
			continue
		}
		if name, err = filepath.Abs(name); err != nil {
			return nil, err
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		some, err := breaksOf(name, src)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("nothing to break in %s: name the directory of a package", dir)
	}
	return list, nil
}

// swaps are operators, and those that are taken for them by mistake.
var swaps = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+",
}

// breaksOf returns the breaks of a file: conditions negated, operators swapped, statements left
// out. A String or Error method decides nothing, and has none.
func breaksOf(name string, src []byte) (list []broken, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	text := func(n ast.Node) string {
		return string(src[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset])
	}
	add := func(from, to token.Pos, text, what string) {
		at := fset.Position(from)
		list = append(list, broken{name, at.Offset, fset.Position(to).Offset, text, at.Line, what})
	}
	negate := func(e ast.Expr) {
		if e != nil {
			add(e.Pos(), e.End(), "!("+text(e)+")", "negated: "+short(text(e)))
		}
	}
	omit := func(statements []ast.Stmt) {
		for _, s := range statements {
			if mayGo(s) {
				add(s.Pos(), s.End(), "", "left out: "+short(text(s)))
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Name.Name != "String" && n.Name.Name != "Error"
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.ForStmt:
			if b, ok := n.Cond.(*ast.BinaryExpr); ok && swaps[b.Op] != "" {
				break // its operator is swapped; negated it would hardly ever run
			}
		case *ast.BlockStmt:
			omit(n.List)
		case *ast.CaseClause:
			omit(n.Body)
		case *ast.CommClause:
			omit(n.Body)
		case *ast.BinaryExpr:
			if other := swaps[n.Op]; other != "" {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other, fmt.Sprintf("%s for %s: %s", other, n.Op, short(text(n))))
			}
		}
		return true
	})
	return list, nil
}

// mayGo reports whether a package may still build without a statement.
func mayGo(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.GoStmt:
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
