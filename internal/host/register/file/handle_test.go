package file

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A handle's file is found by an identity in lower case, and nothing else.
func TestNamesOfHandles(t *testing.T) {
	id := machine.ID{0xab, 15: 0xcd}
	good := handleName(id)
	for name, want := range map[string]bool{
		good: true, strings.ToUpper(good): false, good[2:]: false, good + "00": false, "": false,
		"zz" + good[2:]: false, good + temporary: false, good[:31]: false,
	} {
		if got, ok := parseHandle(name); ok != want || ok && got != id {
			t.Errorf("%q is the name of handle %v, %v; want %v", name, got, ok, want)
		}
	}
}

// Bytes that cannot be a handle's header are damage, and never taken for that of a newer
// program.
func TestHeadersOfHandles(t *testing.T) {
	good := handleHeader{id: machine.ID{1}, set: machine.ID{2}, slots: 16, holder: "someone"}
	sealed := func(h handleHeader, change func(b []byte)) []byte {
		b := make([]byte, block)
		h.encode(b)
		change(b)
		return b
	}
	slots := func(n int) []byte {
		h := good
		h.slots = n
		return sealed(h, func([]byte) {})
	}
	const holderAt = body + 4 + 16 + 16 + 4 // how long it is
	for _, tt := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"one slot", slots(1), true},
		{"as many slots as there can be", slots(mostSlots), true},
		{"no slots", slots(0), false},
		{"a slot more than there can be", slots(mostSlots + 1), false},
		{"zeros", make([]byte, block), false},
		{"another block", sealed(good, func(b []byte) { seal(b, magicRecord) }), false},
		{"a bit that has turned", sealed(good, func(b []byte) { b[body+5] ^= 1 }), false},
		{"a holder of 512 bytes", sealed(good, func(b []byte) { b[holderAt], b[holderAt+1] = 2, 0; seal(b, magicHandle) }), true},
		{"a holder of 513 bytes", sealed(good, func(b []byte) { b[holderAt], b[holderAt+1] = 2, 1; seal(b, magicHandle) }), false},
		{"something behind the holder", sealed(good, func(b []byte) { b[block-1] = 1; seal(b, magicHandle) }), false},
	} {
		h, err := decodeHandle(tt.b)
		if tt.ok && (err != nil || h.id != good.id || h.set != good.set) {
			t.Errorf("%s: %+v, %v; want a header", tt.name, h, err)
		}
		if !tt.ok && (!errors.Is(err, register.ErrDamaged) || errors.Is(err, register.ErrNewer)) {
			t.Errorf("%s: %+v, %v; want ErrDamaged", tt.name, h, err)
		}
	}
}

// A farewell is that of one handle, and nothing else is one.
func TestFarewells(t *testing.T) {
	said := make([]byte, block)
	encodeFarewell(said, machine.ID{1})
	torn := append([]byte(nil), said...)
	torn[body+15] ^= 1
	for _, tt := range []struct {
		name string
		b    []byte
		id   machine.ID
		want bool
	}{
		{"its own", said, machine.ID{1}, true},
		{"another handle's", said, machine.ID{2}, false},
		{"one that was torn", torn, machine.ID{1}, false},
		{"zeros", make([]byte, block), machine.ID{1}, false},
		{"zeros, and a handle without a name", make([]byte, block), machine.ID{}, false},
	} {
		if got := saidFarewell(tt.b, tt.id); got != tt.want {
			t.Errorf("%s: farewell was said: %v, want %v", tt.name, got, tt.want)
		}
	}
}
