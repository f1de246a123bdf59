package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

func TestReader(t *testing.T) {
	p := binary.AppendUvarint(nil, math.MaxUint64)
	p = binary.AppendVarint(p, math.MinInt64)
	p = append(p, 7)
	p = append(binary.AppendUvarint(p, 3), "abc"...)
	p = append(binary.AppendUvarint(p, 2), 1, 2)
	r := Reader{Rest: p}
	if r.Uvarint() != math.MaxUint64 || r.Varint() != math.MinInt64 || r.Byte() != 7 || string(r.Bytes()) != "abc" {
		t.Fatal("not what was written")
	}
	if n := r.Count(); n != 2 || r.Done() {
		t.Fatalf("%d things follow, done: %v", n, r.Done())
	}
	if b := r.Take(2); len(b) != 2 || cap(b) != 2 || !r.Done() {
		t.Fatalf("%d bytes with room for %d, done: %v", len(b), cap(b), r.Done())
	}
}

// What is missing is zero, and so is all that would come after it.
func TestMissing(t *testing.T) {
	long := append(binary.AppendUvarint(nil, 100), 1, 2, 3)
	for name, take := range map[string]func(r *Reader) bool{
		"a number":             func(r *Reader) bool { r.Take(uint64(len(long))); return r.Uvarint() == 0 },
		"a signed number":      func(r *Reader) bool { r.Take(uint64(len(long))); return r.Varint() == 0 },
		"a byte":               func(r *Reader) bool { r.Take(uint64(len(long))); return r.Byte() == 0 },
		"some bytes":           func(r *Reader) bool { return r.Take(uint64(len(long))+1) == nil },
		"as many as there are": func(r *Reader) bool { return r.Take(math.MaxUint64) == nil },
		"a string":             func(r *Reader) bool { return r.Bytes() == nil },
		"so many things":       func(r *Reader) bool { return r.Count() == 0 },
	} {
		r := Reader{Rest: long}
		if !take(&r) || !r.Bad || r.Done() || r.Uvarint() != 0 || r.Take(1) != nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	over := []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}
	if r := (Reader{Rest: over}); r.Uvarint() != 0 || !r.Bad {
		t.Error("a number of more than 64 bits was read")
	}
	if r := (Reader{Rest: over}); r.Varint() != 0 || !r.Bad {
		t.Error("a signed number of more than 64 bits was read")
	}
}

// All that is taken is what was next, however much it is, and what is left begins behind it.
func TestTakenInOrder(t *testing.T) {
	all := make([]byte, 300)
	for i := range all {
		all[i] = byte(255 - i%256)
	}
	r := Reader{Rest: all}
	if b := r.Byte(); b != 255 || len(r.Rest) != 299 {
		t.Errorf("the first byte is %d, and %d are left", b, len(r.Rest))
	}
	if b := r.Take(200); !bytes.Equal(b, all[1:201]) || !bytes.Equal(r.Rest, all[201:]) {
		t.Errorf("200 bytes are %v, and %v are left", b, r.Rest)
	}
	r = Reader{Rest: append(binary.AppendUvarint(nil, 200), all...)}
	if b := r.Bytes(); !bytes.Equal(b, all[:200]) || !bytes.Equal(r.Rest, all[200:]) {
		t.Errorf("200 bytes behind their length are %v, and %v are left", b, r.Rest)
	}
}

// As many things may follow as there are bytes, and not one more.
func TestCount(t *testing.T) {
	for n, want := range map[byte]bool{0: true, 3: true, 4: false} {
		r := Reader{Rest: []byte{n, 1, 2, 3}}
		if got := r.Count(); r.Bad == want || want && got != uint64(n) || !want && got != 0 {
			t.Errorf("%d things in three bytes: %d, bad: %v", n, got, r.Bad)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{3, 'a', 'b', 'c', 1, 9})
	f.Fuzz(func(t *testing.T, p []byte) {
		r := Reader{Rest: p}
		for left := len(p); !r.Bad && !r.Done(); left = len(r.Rest) {
			r.Bytes()
			r.Varint()
			if len(r.Rest) > left {
				t.Fatal("there is more than before")
			}
		}
	})
}
