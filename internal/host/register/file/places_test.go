package file

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// The files of one handle ascend, and share the first half of their names, which no other handle has.
func TestTheFilesOfAHandleAscend(t *testing.T) {
	var s, other Store
	last := s.nextID()
	for i := range 300 { // over the edge of a byte
		id := s.nextID()
		if id.Compare(last) <= 0 || !bytes.Equal(id[:8], last[:8]) {
			t.Fatalf("file %d is %v behind %v", i+1, id, last)
		}
		last = id
	}
	if id := other.nextID(); bytes.Equal(id[:8], last[:8]) {
		t.Errorf("another handle has %v, and this one %v", id, last)
	}
}

// Of two names of one file the condemned one goes.
func TestTheCondemnedNameOfTwoGoes(t *testing.T) {
	b := newBench(t, InitOptions{})
	s := b.open()
	do(t, s, put("x", 1, 1, "one"))
	place := s.home.place
	name := place + "." + handleName(machine.ID{9})
	at := func(name string) string { return filepath.Join(b.dir, handlesDir, name) }
	if err := os.Link(at(place), at(name)); err != nil {
		t.Fatal(err)
	}
	if err := s.vol.untwin([]string{place, name}); err != nil {
		t.Error(err)
	}
	if got := b.handles(); !slices.Equal(got, []string{place}) {
		t.Errorf("left are %v, want %v alone", got, place)
	}
}

// A slot that was mended and is damaged again raises the floor again.
func TestDamageThatComesAgain(t *testing.T) {
	const wait = time.Second
	blank := blankArea(leastSlots)
	g, now := &sight{place: "x"}, machine.Mono(0)
	for i, top := range []uint64{5, 9} {
		raw := bytes.Clone(blank)
		raw[copyAt(leastSlots, 0, 3)+20] ^= 1
		now = now.Add(time.Minute)
		g.take(raw, true, now)
		g.settle(now.Add(wait-1), wait, top)
		if got := g.top(); got != 0 {
			t.Errorf("damage %d: a floor of %d before the wait is over", i, got)
		}
		g.settle(now.Add(wait), wait, top)
		if got := g.top(); got != top+1 {
			t.Errorf("damage %d: a floor of %d, want %d", i, got, top+1)
		}
		now = now.Add(time.Minute)
		g.take(blank, true, now)
	}
}
