package cli

import (
	"encoding"
	"encoding/json"
	"io"
	"reflect"
)

// Line writes v as JSON in one line.
func Line(w io.Writer, v any) error { return json.NewEncoder(w).Encode(Listed(v)) }

// Listed is a copy of v in which no list, no bytes and no map is nil, so that they are [], "" and {} in JSON, and never null:
// scripts go over them without a look. Pointers stay nil; values that marshal themselves stay as they are.
func Listed(v any) any {
	if v == nil {
		return nil
	}
	to := reflect.New(reflect.TypeOf(v)).Elem()
	to.Set(reflect.ValueOf(v))
	fill(to)
	return to.Interface()
}

var (
	marshalsJSON = reflect.TypeFor[json.Marshaler]()
	marshalsText = reflect.TypeFor[encoding.TextMarshaler]()
)

func marshalsItself(t reflect.Type) bool {
	for _, t := range []reflect.Type{t, reflect.PointerTo(t)} {
		if t.Implements(marshalsJSON) || t.Implements(marshalsText) {
			return true
		}
	}
	return false
}

// fill does so with a value that can be set, and shares nothing that it changes.
func fill(v reflect.Value) {
	t := v.Type()
	if marshalsItself(t) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		to := reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(to, v)
		if t.Elem().Kind() != reflect.Uint8 {
			for i := range to.Len() {
				fill(to.Index(i))
			}
		}
		v.Set(to)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		to := reflect.MakeMapWithSize(t, v.Len())
		for key, value := range v.Seq2() {
			to.SetMapIndex(key, filled(value))
		}
		v.Set(to)
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(filled(v.Elem()).Addr())
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(filled(v.Elem()))
		}
	}
}

// filled is a copy of a value.
func filled(v reflect.Value) reflect.Value {
	to := reflect.New(v.Type()).Elem()
	to.Set(v)
	fill(to)
	return to
}
