package tenure_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// surface returns the exported names of a package, a line each, sorted; and those that mention
// an internal type of this module.
func surface(p public) (lines, leaks []string) {
	short := func(other *types.Package) string {
		if other == p.pkg {
			return ""
		}
		return other.Name()
	}
	text := func(t types.Type) string { return types.TypeString(nameless(t), short) }
	signature := func(t types.Type) string { return strings.TrimPrefix(text(t), "func") }
	name := "" // the top-level one that the lines belong to
	leak := func(line string, t types.Type) {
		for hidden := range internalTypes(t) {
			leaks = append(leaks, fmt.Sprintf("%s %s mentions %s, which users cannot see: %s", p.path, name, hidden, line))
		}
	}
	add := func(t types.Type, format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		lines = append(lines, line)
		leak(line, t)
	}
	definitions := map[string]ast.Expr{}
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				definitions[spec.Name.Name] = spec.Type
			}
			_, body := n.(*ast.BlockStmt)
			return !body
		})
	}
	for _, name = range p.pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		switch o := p.pkg.Scope().Lookup(name).(type) {
		case *types.Const:
			kind := " " + text(o.Type())
			if b, ok := o.Type().(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
				kind = ""
			}
			add(o.Type(), "const %s%s = %s", name, kind, o.Val().ExactString())
		case *types.Var:
			add(o.Type(), "var %s %s", name, text(o.Type()))
		case *types.Func:
			add(o.Type(), "func %s%s", name, signature(o.Type()))
		case *types.TypeName:
			if o.IsAlias() {
				add(o.Type(), "type %s = %s", name, text(types.Unalias(o.Type())))
				continue
			}
			// "type T internal.U" shows U to a reader, though T has nothing of it.
			if of := p.info.TypeOf(definitions[name]); isNamed(of) {
				leak("type "+name, of)
			}
			switch u := o.Type().Underlying().(type) {
			case *types.Struct:
				add(nil, "type %s struct", name)
				for field := range exportedFields(u) {
					if field.Embedded() {
						add(field.Type(), "type %s struct, embedded %s", name, text(field.Type()))
					} else {
						add(field.Type(), "type %s struct, %s %s", name, field.Name(), text(field.Type()))
					}
				}
			case *types.Interface:
				add(nil, "type %s interface", name)
				for i := range u.NumEmbeddeds() {
					leak("type "+name+" interface", u.EmbeddedType(i))
				}
				for m := range u.Methods() {
					if m.Exported() {
						add(m.Type(), "type %s interface, %s%s", name, m.Name(), signature(m.Type()))
					}
				}
				continue
			default:
				add(u, "type %s %s", name, text(u))
			}
			methods := types.NewMethodSet(types.NewPointer(o.Type()))
			byValue := types.NewMethodSet(o.Type())
			for i := range methods.Len() {
				m := methods.At(i)
				if !m.Obj().Exported() || ofExportedField(o.Type(), m.Index()) {
					continue
				}
				receiver := "*" + name
				if byValue.Lookup(p.pkg, m.Obj().Name()) != nil {
					receiver = name
				}
				add(m.Type(), "method (%s) %s%s", receiver, m.Obj().Name(), signature(m.Type()))
			}
		}
	}
	slices.Sort(lines)
	return lines, leaks
}

// exportedFields yields the fields of a struct that others can use: also those of the
// unexported structs that it embeds.
func exportedFields(s *types.Struct) func(func(*types.Var) bool) {
	return func(yield func(*types.Var) bool) {
		for f := range s.Fields() {
			if f.Exported() {
				if !yield(f) {
					return
				}
				continue
			}
			if inner, ok := pointee(f.Type()).Underlying().(*types.Struct); ok && f.Embedded() {
				for f := range exportedFields(inner) {
					if !yield(f) {
						return
					}
				}
			}
		}
	}
}

// ofExportedField reports whether a method belongs to an exported field that a type embeds: it is
// that type's, then.
func ofExportedField(t types.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		field := pointee(t).Underlying().(*types.Struct).Field(i)
		if field.Exported() {
			return true
		}
		t = field.Type()
	}
	return false
}

func pointee(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}

func isNamed(t types.Type) bool {
	switch t.(type) {
	case *types.Named, *types.Alias:
		return true
	}
	return false
}

// nameless returns a type without the names of parameters and results, which are no part of it.
func nameless(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Pointer:
		return types.NewPointer(nameless(t.Elem()))
	case *types.Slice:
		return types.NewSlice(nameless(t.Elem()))
	case *types.Array:
		return types.NewArray(nameless(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(nameless(t.Key()), nameless(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), nameless(t.Elem()))
	case *types.Signature:
		if t.TypeParams().Len() > 0 {
			return t
		}
		tuple := func(of *types.Tuple) *types.Tuple {
			var vars []*types.Var
			for v := range of.Variables() {
				vars = append(vars, types.NewParam(token.NoPos, nil, "", nameless(v.Type())))
			}
			return types.NewTuple(vars...)
		}
		return types.NewSignatureType(nil, nil, nil, tuple(t.Params()), tuple(t.Results()), t.Variadic())
	}
	return t
}

// internalTypes are the types of this module's internal packages that a type mentions.
func internalTypes(t types.Type) map[string]bool {
	found := map[string]bool{}
	note := func(o *types.TypeName) {
		if o.Pkg() != nil && strings.HasPrefix(o.Pkg().Path(), module+"/") && strings.Contains(o.Pkg().Path()+"/", "/internal/") {
			found[strings.TrimPrefix(o.Pkg().Path(), module+"/")+"."+o.Name()] = true
		}
	}
	var visit func(t types.Type)
	tuple := func(of *types.Tuple) {
		for v := range of.Variables() {
			visit(v.Type())
		}
	}
	visit = func(t types.Type) {
		switch t := t.(type) {
		case *types.Alias:
			note(t.Obj())
			for arg := range t.TypeArgs().Types() {
				visit(arg)
			}
			visit(t.Rhs())
		case *types.Named:
			note(t.Obj())
			for arg := range t.TypeArgs().Types() {
				visit(arg)
			}
		case *types.Pointer:
			visit(t.Elem())
		case *types.Slice:
			visit(t.Elem())
		case *types.Array:
			visit(t.Elem())
		case *types.Chan:
			visit(t.Elem())
		case *types.Map:
			visit(t.Key())
			visit(t.Elem())
		case *types.Struct:
			for f := range t.Fields() {
				visit(f.Type())
			}
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				visit(m.Type())
			}
			for e := range t.EmbeddedTypes() {
				visit(e)
			}
		case *types.Union:
			for term := range t.Terms() {
				visit(term.Type())
			}
		case *types.Signature:
			for p := range t.TypeParams().TypeParams() {
				visit(p.Constraint())
			}
			tuple(t.Params())
			tuple(t.Results())
		}
	}
	visit(t)
	return found
}
