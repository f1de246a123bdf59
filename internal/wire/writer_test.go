package wire

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// field is one that a Writer has appended, and the check of what a Reader takes.
type field struct {
	name  string
	write func(w *Writer)
	same  func(r *Reader) bool
}

// someField draws a field, its limits included.
func someField(t *rapid.T) field {
	n := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 127, 128, math.MaxUint32, math.MaxUint64})).Draw(t, "number")
	p := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
	return rapid.SampledFrom([]field{
		{"Uvarint", func(w *Writer) { w.Uvarint(n) }, func(r *Reader) bool { return r.Uvarint() == n }},
		{"UvarintTo", func(w *Writer) { w.Uvarint(n) }, func(r *Reader) bool { return r.UvarintTo(n) == n }},
		{"Varint", func(w *Writer) { w.Varint(int64(n)) }, func(r *Reader) bool { return r.Varint() == int64(n) }},
		{"Byte", func(w *Writer) { w.Byte(byte(n)) }, func(r *Reader) bool { return r.Byte() == byte(n) }},
		{"Uint32", func(w *Writer) { w.Uint32(uint32(n)) }, func(r *Reader) bool { return r.Uint32() == uint32(n) }},
		{"Uint64", func(w *Writer) { w.Uint64(n) }, func(r *Reader) bool { return r.Uint64() == n }},
		{"Put", func(w *Writer) { w.Put(p) }, func(r *Reader) bool { return bytes.Equal(r.Take(uint64(len(p))), p) }},
		{"Bytes", func(w *Writer) { w.Bytes(p) }, func(r *Reader) bool { return bytes.Equal(r.Bytes(), p) }},
		{"Text", func(w *Writer) { w.Text(string(p)) }, func(r *Reader) bool { return r.Text() == string(p) }},
		{"Count", func(w *Writer) { w.Count(len(p)); w.Put(p) }, func(r *Reader) bool {
			return r.Count() == uint64(len(p)) && bytes.Equal(r.Take(uint64(len(p))), p)
		}},
	}).Draw(t, "field")
}

// A Reader takes what a Writer has appended, field by field, and nothing is left.
func TestReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Writer
		fields := rapid.SliceOfN(rapid.Custom(someField), 1, 20).Draw(t, "fields")
		for _, f := range fields {
			f.write(&w)
		}
		r := Reader{Rest: w}
		for i, f := range fields {
			if !f.same(&r) || r.Bad {
				t.Fatalf("field %d, %s, is read as another, with %+v left", i, f.name, r)
			}
		}
		if !r.Done() {
			t.Fatalf("%d bytes are left", len(r.Rest))
		}
	})
}

// A byte that is missing at the end is noticed.
func TestCutOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Writer
		f := rapid.Custom(someField).Draw(t, "field")
		if f.write(&w); len(w) == 0 {
			return
		}
		r := Reader{Rest: w[:len(w)-1]}
		if f.same(&r); !r.Bad {
			t.Fatalf("%s without its last byte is read", f.name)
		}
	})
}

// A number above its limit is damage, and one at it is not.
func TestUvarintTo(t *testing.T) {
	for n, bad := range map[uint64]bool{0: false, 299: false, 300: false, 301: true, math.MaxUint64: true} {
		var w Writer
		w.Uvarint(n)
		r := Reader{Rest: w}
		if got := r.UvarintTo(300); r.Bad != bad || bad && got != 0 || !bad && got != n {
			t.Errorf("%d of at most 300 is read as %d, bad: %v", n, got, r.Bad)
		}
	}
}

// Numbers of a fixed length are little endian, and text does not alias the message.
func TestForms(t *testing.T) {
	var w Writer
	w.Uint32(1)
	w.Uint64(2)
	if want := []byte{1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(w, want) {
		t.Errorf("1 and 2 are written as %v, want %v", w, want)
	}
	w = w[:0]
	w.Text("abc")
	r := Reader{Rest: w}
	s := r.Text()
	clear(w)
	if s != "abc" {
		t.Errorf("the text changed with the message: %q", s)
	}
}

// A Writer with room allocates nothing.
func TestWritingAllocatesNothing(t *testing.T) {
	room, p := make([]byte, 0, 200), []byte("bytes")
	if n := testing.AllocsPerRun(100, func() {
		w := Writer(room)
		w.Uvarint(300)
		w.Varint(-1)
		w.Byte(7)
		w.Uint32(1)
		w.Uint64(2)
		w.Put(p)
		w.Bytes(p)
		w.Text("text")
		w.Count(3)
		room = w[:0]
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
