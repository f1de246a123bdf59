package mutant

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Weave puts many bugs into the program of the module at root: each function that a bug changes gets
// a second body for it, under a name of its own, which the function calls if its bug was chosen.
// (Mutant schemata: Untch, Offutt and Harrold, "Mutation Analysis Using Mutant Schemata", ISSTA
// 1993.) The bugs are given by their edits, and are numbered from 1. Weave returns the texts of the
// changed files, by path from the root. A file is added to each package that is changed: asks has
// its text behind the package clause, with a function chosen(bug int) bool.
//
// A bug is woven only if all that it changes is bodies of functions; the others are not in.
func Weave(root string, bugs [][]Edit, asks string) (texts map[string]string, in []bool, err error) {
	w := &weaver{root, map[string]*woven{}}
	for i, edits := range bugs {
		ok, err := w.add(i+1, edits)
		if err != nil {
			return nil, nil, fmt.Errorf("bug %d: %w", i+1, err)
		}
		in = append(in, ok)
	}
	return w.sources(asks), in, nil
}

type weaver struct {
	root  string
	files map[string]*woven // by path from the root
}

// woven is a file with the second bodies of its functions.
type woven struct {
	text   string
	parsed parsed
	bodies map[int][]body // by index of the declaration
}

type body struct {
	bug  int
	text string // with its braces
}

// add puts a bug in, and reports whether it could: all that it changes has to be bodies of
// functions.
func (w *weaver) add(bug int, edits []Edit) (bool, error) {
	texts, err := edited(w.root, edits)
	if err != nil {
		return false, err
	}
	changed := map[string]map[int]string{}
	for file, text := range texts {
		f, err := w.file(file)
		if err != nil {
			return false, err
		}
		bodies, ok := f.changes(text)
		if !ok || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return false, nil
		}
		changed[file] = bodies
	}
	for file, bodies := range changed {
		for decl, text := range bodies {
			w.files[file].bodies[decl] = append(w.files[file].bodies[decl], body{bug, text})
		}
	}
	return true, nil
}

func (w *weaver) file(name string) (*woven, error) {
	if f := w.files[name]; f != nil {
		return f, nil
	}
	raw, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil {
		return nil, err
	}
	f := &woven{text: string(raw), bodies: map[int][]body{}}
	f.parsed, _ = parseFile(f.text) // a file that is no Go has no functions, and takes no bug
	w.files[name] = f
	return f, nil
}

// parsed is a Go file whose positions are offsets into its text, plus one.
type parsed struct {
	fset *token.FileSet
	file *ast.File
}

func parseFile(text string) (parsed, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, parser.SkipObjectResolution|parser.ParseComments)
	return parsed{fset, file}, err
}

func offset(at token.Pos) int { return int(at) - 1 }

// changes returns the bodies that differ in another version of a file, by the index of their
// declarations. It reports false if something else differs, too, or if a body cannot stand in a
// function of another name.
func (f *woven) changes(text string) (map[int]string, bool) {
	was := f.parsed.file
	now, err := parseFile(text)
	if err != nil || was == nil || len(was.Decls) != len(now.file.Decls) {
		return nil, false
	}
	bodies := map[int]string{}
	for i, d := range was.Decls {
		before, after := f.text[offset(d.Pos()):offset(d.End())], text[offset(now.file.Decls[i].Pos()):offset(now.file.Decls[i].End())]
		if before == after {
			continue
		}
		old, isFunc := d.(*ast.FuncDecl)
		changed, isFuncNow := now.file.Decls[i].(*ast.FuncDecl)
		if !isFunc || !isFuncNow || !canMove(old) || changed.Body == nil {
			return nil, false
		}
		header, _ := split(f.text, old)
		headerNow, bodyNow := split(text, changed)
		if header != headerNow || strings.Contains(before+after, "recover()") { // which works in a deferred function itself only
			return nil, false
		}
		bodies[i] = bodyNow
	}
	return bodies, true
}

// split returns a function's header, with its name, and its body.
func split(text string, f *ast.FuncDecl) (header, body string) {
	return text[offset(f.Type.Pos()):offset(f.Body.Lbrace)], text[offset(f.Body.Lbrace):offset(f.Body.End())]
}

// canMove reports whether a function's body may stand in another that it calls.
func canMove(f *ast.FuncDecl) bool {
	if f.Body == nil || f.Recv == nil && slices.Contains([]string{"init", "main", "_"}, f.Name.Name) {
		return false
	}
	return f.Doc == nil || !slices.ContainsFunc(f.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:") })
}

// sources returns the texts of the woven files and of those that are added, by path from the root.
func (w *weaver) sources(asks string) map[string]string {
	texts := map[string]string{}
	for name, f := range w.files {
		if len(f.bodies) > 0 {
			texts[name] = f.weave()
			texts[path.Join(path.Dir(name), "zz_chosen.go")] = "package " + f.parsed.file.Name.Name + "\n\n" + asks
		}
	}
	return texts
}

// insertion is a text that comes before an offset.
type insertion struct {
	at   int
	text string
}

// weave returns the file's text with all bodies. Lines stay where they are, for those that a
// failure names.
func (f *woven) weave() string {
	var insertions []insertion
	var more strings.Builder
	for _, i := range slices.Sorted(maps.Keys(f.bodies)) {
		d := f.parsed.file.Decls[i].(*ast.FuncDecl)
		named, call := f.call(d)
		insertions = append(insertions, named...)
		var calls strings.Builder
		for _, b := range f.bodies[i] {
			fmt.Fprintf(&calls, " if chosen(%d) { %s };", b.bug, strings.ReplaceAll(call, "\x00", strconv.Itoa(b.bug)))
			name, header := offset(d.Name.Pos()), offset(d.Body.Lbrace)
			fmt.Fprintf(&more, "\n%s%s_bug%d%s%s\n", f.text[offset(d.Type.Pos()):name], d.Name.Name, b.bug, f.text[offset(d.Name.End()):header], b.text)
		}
		insertions = append(insertions, insertion{offset(d.Body.Lbrace) + 1, calls.String()})
	}
	slices.SortStableFunc(insertions, func(a, b insertion) int { return cmp.Compare(a.at, b.at) })
	var text strings.Builder
	from := 0
	for _, in := range insertions {
		text.WriteString(f.text[from:in.at])
		text.WriteString(in.text)
		from = in.at
	}
	text.WriteString(f.text[from:])
	text.WriteString(more.String())
	return text.String()
}

// call returns the statements that call a second body, with a zero byte in place of its bug's
// number, and the names that parameters need for it.
func (f *woven) call(d *ast.FuncDecl) (named []insertion, call string) {
	names := func(list *ast.FieldList, prefix string) (all []string) {
		if list == nil {
			return nil
		}
		for _, field := range list.List {
			if len(field.Names) == 0 {
				all = append(all, fmt.Sprintf("%s%d", prefix, len(all)))
				named = append(named, insertion{offset(field.Type.Pos()), all[len(all)-1] + " "})
			}
			for _, n := range field.Names {
				name := n.Name
				if name == "_" { // it becomes the end of a name
					before := fmt.Sprintf("%s%d", prefix, len(all))
					named = append(named, insertion{offset(n.Pos()), before})
					name = before + "_"
				}
				all = append(all, name)
			}
		}
		return all
	}
	target := d.Name.Name + "_bug\x00"
	if receiver := names(d.Recv, "receiver"); len(receiver) > 0 {
		target = receiver[0] + "." + target
	}
	if types := d.Type.TypeParams; types != nil {
		target += "[" + strings.Join(names(types, "T"), ", ") + "]"
	}
	parameters := names(d.Type.Params, "parameter")
	call = target + "(" + strings.Join(parameters, ", ")
	if n := len(d.Type.Params.List); n > 0 {
		if _, variadic := d.Type.Params.List[n-1].Type.(*ast.Ellipsis); variadic {
			call += "..."
		}
	}
	call += ")"
	if d.Type.Results.NumFields() > 0 {
		return named, "return " + call
	}
	return named, call + "; return"
}
