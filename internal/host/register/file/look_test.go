package file

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// placeOfAHandle is the contents of a place whose handle left records.
func placeOfAHandle(id machine.ID, recs ...record) []byte {
	s := &Store{}
	var slots []*slot
	for _, r := range recs {
		slots = append(slots, &slot{rec: r})
	}
	return s.image(&home{id: id, slots: leastSlots}, slots)
}

// spoil changes a bit of the block at a byte.
func spoil(raw []byte, at int) []byte {
	raw = bytes.Clone(raw)
	raw[at+200] ^= 1
	return raw
}

// TestDamageOfAHeaderAndOfASlot: the header and each slot of a place are damaged since they were
// first seen as they are, even if other parts of the place have changed.
func TestDamageOfAHeaderAndOfASlot(t *testing.T) {
	const wait = time.Minute
	g := &sight{place: handleName(machine.ID{7})}
	id := machine.ID{7}
	at := func(seq uint64) []byte {
		return placeOfAHandle(id, record{name: "x", version: machine.Version{Seq: seq}}, record{name: "y", version: machine.Version{Seq: 3}})
	}
	for _, step := range []struct {
		name  string
		now   time.Duration
		raw   []byte
		all   bool   // nothing of the place can be trusted
		names string // those that cannot
	}{
		{"all is well", 0, at(1), false, ""},
		{"the header is damaged", 10 * time.Second, spoil(at(1), 0), true, ""},
		{"a slot is written beside it", 50 * time.Second, spoil(at(2), 0), true, ""},
		{"just before the wait is over", 70*time.Second - 1, spoil(at(3), 0), true, ""},
		{"the wait is over", 70 * time.Second, spoil(at(4), 0), false, ""},
		{"the header is well", 80 * time.Second, at(4), false, ""},
		{"a copy of y is damaged", 90 * time.Second, spoil(at(4), copyAt(leastSlots, 0, 1)), false, "y"},
		{"x is written beside it", 140 * time.Second, spoil(at(5), copyAt(leastSlots, 0, 1)), false, "y"},
		{"a copy of x is damaged, too", 145 * time.Second, spoil(spoil(at(5), copyAt(leastSlots, 0, 1)), copyAt(leastSlots, 1, 0)), false, "x y"},
		{"that of y counts as lost", 150 * time.Second, spoil(spoil(at(5), copyAt(leastSlots, 0, 1)), copyAt(leastSlots, 1, 0)), false, "x"},
		{"that of x does, too", 205 * time.Second, spoil(spoil(at(5), copyAt(leastSlots, 0, 1)), copyAt(leastSlots, 1, 0)), false, ""},
	} {
		g.take(step.raw, false, machine.Mono(step.now))
		names, all := g.damage(machine.Mono(step.now), wait)
		for name, err := range names {
			if !errors.Is(err, register.ErrDamaged) {
				t.Errorf("%s: %s is damaged by %v", step.name, name, err)
			}
		}
		got := strings.Join(slices.Sorted(maps.Keys(names)), " ")
		if (all != nil) != step.all || all != nil && !errors.Is(all, register.ErrDamaged) || got != step.names {
			t.Errorf("%s: damaged are %q, and all of it: %v; want %q, and all: %v", step.name, got, all, step.names, step.all)
		}
	}
}

// TestWhatALookFinds: records that are lost for good may have used any number from the greatest on
// that any place shows, and the look knows that at once. Places that are not listed any more are
// forgotten, and a file of any name is known by its place.
func TestWhatALookFinds(t *testing.T) {
	const wait = time.Minute
	sights := func(ids ...byte) map[string]*sight {
		all := map[string]*sight{}
		for _, id := range ids {
			place := handleName(machine.ID{id})
			all[place] = &sight{place: place}
		}
		return all
	}
	take := func(l *lookout, id byte, raw []byte) { l.sights[handleName(machine.ID{id})].take(raw, false, 0) }
	l := &lookout{wait: wait, began: machine.Mono(wait), top: 7, sights: sights(1, 2, 3)}
	lost := placeOfAHandle(machine.ID{1})
	take(l, 1, spoil(spoil(lost, copyAt(leastSlots, 0, 3)), copyAt(leastSlots, 1, 3)))
	take(l, 2, placeOfAHandle(machine.ID{2}, record{name: "x", version: machine.Version{Seq: 40}}))
	take(l, 3, placeOfAHandle(machine.ID{3}, record{name: "x", version: machine.Version{Seq: 1000}}))
	first, second := handleName(machine.ID{1}), handleName(machine.ID{2})
	l.finish([]string{first, second + "." + first}) // the second was condemned
	if want := uint64(40 + lostWrites); l.top != want {
		t.Errorf("what was lost may have used up to %d, beside a record with 40, want %d", l.top, want)
	}
	if !slices.Equal(l.order, []string{first, second}) || len(l.sights) != 2 || l.sights[first] == nil || l.sights[second] == nil {
		t.Errorf("two places are listed, and known are %q and %d sights", l.order, len(l.sights))
	}
	l.began = l.began.Add(wait)
	l.finish([]string{second})
	if want := uint64(40 + lostWrites); l.top != want || len(l.sights) != 1 {
		t.Errorf("the place with the loss has gone, and the greatest number is %d of %d sights, want still %d", l.top, len(l.sights), want)
	}
	l.forget(second)
	if len(l.order) != 0 || len(l.sights) != 0 {
		t.Errorf("a place that was removed is known: %q, %d sights", l.order, len(l.sights))
	}
}

// oneImage is a volume with one place.
type oneImage struct {
	volume
	image []byte
	areas bool
}

func (o oneImage) shared() bool              { return o.areas }
func (o oneImage) open(string) (file, error) { return imageFile{bytes.NewReader(o.image)}, nil }

type imageFile struct{ *bytes.Reader }

func (imageFile) WriteAt([]byte, int64) (int, error) { return 0, errBlind }
func (imageFile) Close() error                       { return nil }
func (imageFile) sync() error                        { return nil }
func (f imageFile) stat() (info, error) {
	return info{ident: [2]uint64{1}, size: f.Size(), plain: true}, nil
}

// What was made for another set is refused, in a directory and on a device. An area that nobody has had is of no set.
func TestPlacesOfAnotherSet(t *testing.T) {
	ours, id := machine.ID{1}, machine.ID{7}
	for _, areas := range []bool{true, false} {
		for _, tt := range []struct {
			head    handleHeader
			refused bool
		}{
			{handleHeader{id: id, set: ours, slots: 1}, false},
			{handleHeader{id: id, set: machine.ID{2}, slots: 1}, true},
			{handleHeader{id: id, slots: 1}, true},
			{handleHeader{slots: 1}, false},
		} {
			image := blankArea(1)
			tt.head.encode(image)
			l := &lookout{vol: oneImage{image: image, areas: areas}, set: ours, now: func() machine.Mono { return 1 }}
			g := &sight{place: handleName(tt.head.id)}
			if err := l.read(g, &l.bufs[0]); errors.Is(err, register.ErrMismatch) != tt.refused || err != nil != tt.refused {
				t.Errorf("on a device %v: a place of handle %v, of set %v, is read with %v; want it refused: %v", areas, tt.head.id, tt.head.set, err, tt.refused)
			}
		}
	}
}
