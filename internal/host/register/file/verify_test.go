package file

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// TestWhatVerifyFinds compares a handle's own place, at the latest look, with the handle's last write. If they
// differ, the generation shows whether the place went back in time or has another writer. A damaged place is
// written anew, and a place in doubt proves nothing.
func TestWhatVerifyFinds(t *testing.T) {
	home := toldHome()
	rec := func(slot int, gen uint64, data string) []byte {
		b := make([]byte, block)
		r := record{handle: home.id, slot: slot, gen: gen, writer: writer(3), name: "z", version: version(9, 3), data: []byte(data)}
		r.encode(b)
		return b
	}
	a3, b3 := copyAt(leastSlots, 0, 3), copyAt(leastSlots, 1, 3)
	for name, tt := range map[string]struct {
		is     error // of the host
		change func(raw []byte) []byte
		before func(*Store, *sight)
		err    error
		says   string
		drops  bool
		doubt  error
		hushes bool
		dead   bool
	}{
		"it is as it was written":           {},
		"there is no home":                  {before: func(s *Store, _ *sight) { s.home = nil }, drops: true},
		"others do not find it":             {is: errCondemned, err: errCondemned, drops: true},
		"the host cannot tell":              {is: errHost, err: errHost},
		"the look has not met it":           {before: func(s *Store, _ *sight) { clear(s.lookout.sights) }, err: errTaken, drops: true, hushes: true},
		"the look has met another file":     {before: func(_ *Store, g *sight) { g.ident[1]++ }, err: errTaken, drops: true, hushes: true},
		"it is in doubt, and has changed":   {before: func(s *Store, _ *sight) { s.home.doubt = errHost }, change: func(raw []byte) []byte { copy(raw[a3:], rec(3, 9, "new")); return raw }, doubt: errHost},
		"it was cut":                        {change: func(raw []byte) []byte { return raw[:len(raw)-2*block] }, err: register.ErrDamaged, says: "has another size", doubt: register.ErrDamaged},
		"a copy is damaged":                 {change: func(raw []byte) []byte { return spoil(raw, b3) }, err: register.ErrDamaged, says: "slot 3", doubt: register.ErrDamaged},
		"its header is damaged":             {change: func(raw []byte) []byte { return spoil(raw, 0) }, err: register.ErrDamaged, says: "the header", doubt: register.ErrDamaged},
		"its header and a copy are damaged": {change: func(raw []byte) []byte { return spoil(spoil(raw, 0), a3) }, err: register.ErrDamaged, says: "slot 3", doubt: register.ErrDamaged},
		"a copy went back":                  {change: func(raw []byte) []byte { copy(raw[b3:], rec(3, 5, "old")); return raw }, err: errBack, doubt: errBack, hushes: true},
		"a copy is damaged, another back":   {change: func(raw []byte) []byte { raw = spoil(raw, a3); copy(raw[b3:], rec(3, 5, "old")); return raw }, err: errBack, doubt: errBack, hushes: true},
		"another wrote as often":            {change: func(raw []byte) []byte { copy(raw[b3:], rec(3, 6, "another's")); return raw }, err: register.ErrGone, says: "another process writes", dead: true},
		"another wrote more often":          {change: func(raw []byte) []byte { copy(raw[a3:], rec(3, 7, "another's")); return raw }, err: register.ErrGone, says: "another process writes", dead: true},
		"another wrote, and left damage": {change: func(raw []byte) []byte {
			raw = spoil(raw, copyAt(leastSlots, 0, 1))
			copy(raw[a3:], rec(3, 7, "another's"))
			return raw
		}, err: register.ErrGone, says: "another process writes", dead: true},
	} {
		k := &toldKeeper{is: tt.is}
		s, c := toldStore(k)
		for _, at := range []int{a3, b3} {
			copy(s.home.image[at:], rec(3, 6, "ours"))
		}
		raw := bytes.Clone(s.home.image)
		if tt.change != nil {
			raw = tt.change(raw)
		}
		g := &sight{place: s.home.place, ident: s.home.ident}
		g.take(raw, false, c.now())
		s.lookout.sights = map[string]*sight{g.place: g}
		if tt.before != nil {
			tt.before(s, g)
		}
		err := s.verify()
		if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %v that says %q", name, err, tt.err, tt.says)
		}
		if (s.home == nil) != tt.drops {
			t.Errorf("%s: the place was dropped: %v, want %v", name, s.home == nil, tt.drops)
		}
		var doubt error
		if s.home != nil {
			doubt = s.home.doubt
		}
		if !errors.Is(doubt, tt.doubt) || (doubt == nil) != (tt.doubt == nil) {
			t.Errorf("%s: the place is in doubt for %v, want %v", name, doubt, tt.doubt)
		}
		if hushes := s.why != nil && s.hushed == c.now().Add(s.lookout.wait); hushes != tt.hushes || (s.dead != nil) != tt.dead {
			t.Errorf("%s: nothing counts for a wait: %v, or ever: %v; want %v, %v", name, hushes, s.dead, tt.hushes, tt.dead)
		}
	}
}

// TestARecordKeepsItsPlaceInASlotThatWasTried: a writer that leaves while its record has no place is
// forgotten only if the record was never written. Others may have seen it.
func TestARecordKeepsItsPlaceInASlotThatWasTried(t *testing.T) {
	for _, tt := range []struct {
		at   int
		gen  uint64
		kept bool
	}{{nowhere, 0, false}, {nowhere, 1, true}, {0, 0, true}, {0, 1, true}} {
		s, _ := toldStore(&toldKeeper{})
		p := s.slots[key{writer(1), "x"}]
		p.at, p.rec.gen = tt.at, tt.gen
		s.noteLeavers([]register.Op{query("y"), leave("x", 1), leave("no such", 1)})
		if _, kept := s.slots[key{writer(1), "x"}]; kept != tt.kept || !p.left || len(s.slots) != map[bool]int{false: 1, true: 2}[tt.kept] {
			t.Errorf("a writer left whose record is at %d and was written %d times: kept %v, noted that it left %v, of %d slots; want it kept: %v",
				tt.at, tt.gen, kept, p.left, len(s.slots), tt.kept)
		}
	}
}

// The records of a handle whose file was taken away come back, those of writers that have left since
// included: a register that was seen must not go back.
func TestWhoLeavesWhileItsRecordHasNoPlace(t *testing.T) {
	s, c := toldStore(&toldKeeper{recovers: errHost})
	if err := s.gone(errTaken); !errors.Is(err, register.ErrGone) {
		t.Fatal(err)
	}
	for _, p := range s.slots {
		p.rec.gen = 2
	}
	s.Do([]register.Op{leave("x", 1)})
	c.pass(time.Minute)
	s.Do([]register.Op{leave("y", 2)})
	if len(s.slots) != 2 {
		t.Errorf("of two records that were written and have no place %d are kept for when there is one", len(s.slots))
	}
}

// Each record tells the greatest Seq that its handle knows of, from its own Puts, too, and in the same batch.
func TestARecordTellsOfOtherPutsOfItsHandle(t *testing.T) {
	s, _ := toldStore(&toldKeeper{})
	f := &recordedFile{}
	s.home.f, s.lookout.top = f, 5
	do(t, s, put("x", 30, 1, "x"), note("y", 8, 2, "y"))
	do(t, s, note("y", 9, 2, "y"))
	want := []string{
		`A0 x gen 1 floor 30 seq 30 "x" note 0 ""`, `A1 y gen 1 floor 30 seq 5 "" note 8 "y"`,
		`B0 x gen 1 floor 30 seq 30 "x" note 0 ""`, `B1 y gen 1 floor 30 seq 5 "" note 8 "y"`,
		`A1 y gen 2 floor 30 seq 5 "" note 9 "y"`, `B1 y gen 2 floor 30 seq 5 "" note 9 "y"`,
	}
	if !slices.Equal(f.wrote, want) {
		t.Errorf("of a handle that has put version 30 were written\n%s\nwant\n%s", strings.Join(f.wrote, "\n"), strings.Join(want, "\n"))
	}
	if s.lookout.top != 30 {
		t.Errorf("the greatest Seq is %d, want 30", s.lookout.top)
	}
}
