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

// The names of the environment variable and of the Go variable that choose the mutant of a woven
// program. 0 is the program without a mutant.
const (
	choice       = "TENURE_MUTANT"
	chosen       = "tenureMutant"
	choiceOfFile = "zz_tenure_mutant.go"
)

// weaver puts many mutants into one program, which a variable of the environment chooses from. Each
// function that a mutant changes gets a second body for it, under a name of its own, and the
// function calls that body if its mutant was chosen. (Mutant schemata: Untch, Offutt and Harrold,
// "Mutation Analysis Using Mutant Schemata", ISSTA 1993.)
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
	mutant int
	text   string // with its braces
}

func newWeaver(root string) *weaver { return &weaver{root, map[string]*woven{}} }

// add puts a mutant in, and reports whether it could: all that it changes has to be bodies of
// functions.
func (w *weaver) add(id int, m mutant) (bool, error) {
	texts, err := edited(w.root, m.edits)
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
			w.files[file].bodies[decl] = append(w.files[file].bodies[decl], body{id, text})
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
	f.parsed, _ = parseFile(f.text) // a file that is no Go has no functions, and takes no mutant
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

// sources returns the texts of the woven files, and of one file for each of their packages that
// reads the environment, by path from the root.
func (w *weaver) sources() map[string]string {
	texts := map[string]string{}
	for name, f := range w.files {
		if len(f.bodies) == 0 {
			continue
		}
		texts[name] = f.weave()
		texts[path.Join(path.Dir(name), choiceOfFile)] = fmt.Sprintf(
			"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar %s, _ = strconv.Atoi(os.Getenv(%q))\n", f.parsed.file.Name.Name, chosen, choice)
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
		var cases strings.Builder
		for _, b := range f.bodies[i] {
			fmt.Fprintf(&cases, " case %d: %s;", b.mutant, strings.ReplaceAll(call, "\x00", strconv.Itoa(b.mutant)))
			name, header := offset(d.Name.Pos()), offset(d.Body.Lbrace)
			fmt.Fprintf(&more, "\n%s%s_mutant%d%s%s\n", f.text[offset(d.Type.Pos()):name], d.Name.Name, b.mutant, f.text[offset(d.Name.End()):header], b.text)
		}
		insertions = append(insertions, insertion{offset(d.Body.Lbrace) + 1, " switch " + chosen + " {" + cases.String() + " };"})
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

// call returns the statements that call a second body, with a zero byte in place of its mutant's number, and the names
// that parameters need for it.
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
	target := d.Name.Name + "_mutant\x00"
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
