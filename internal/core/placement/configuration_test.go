package placement

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

var three = []machine.NodeID{10, 20, 30}

// must gives a function that fails the test on an error.
func must(t testing.TB) func(*Configuration, error) *Configuration {
	return func(c *Configuration, err error) *Configuration {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func cell(key, end string, holders Set) Cell { return Cell{[]byte(key), []byte(end), holders} }

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		members  []machine.NodeID
		fallback Set
		cells    []Cell
		buckets  []Set
		want     string
	}{
		{nil, 1, nil, nil, "0 members"},
		{make([]machine.NodeID, 65), 1, nil, nil, "65 members"},
		{[]machine.NodeID{0, 1}, 1, nil, nil, "0 is no member's ID"},
		{[]machine.NodeID{2, 1}, 1, nil, nil, "1 comes after 2"},
		{[]machine.NodeID{2, 2}, 1, nil, nil, "2 comes after 2"},
		{three, 0, nil, nil, "nobody holds the default"},
		{three, 8, nil, nil, "more than the 3 members"},
		{three, 1, []Cell{cell("a", "", 0)}, nil, "nobody holds key:a"},
		{three, 1, []Cell{cell("a", "b", 9)}, nil, "holders 1001 of prefix:a are more"},
		{three, 1, []Cell{cell("", "b", 1)}, nil, "a key of 0 bytes"},
		{three, 1, []Cell{cell(strings.Repeat("k", 1025), "", 1)}, nil, "a key of 1025 bytes"},
		{three, 1, []Cell{cell("a", strings.Repeat("k", 1025), 1)}, nil, "an end of 1025"},
		{three, 1, []Cell{cell("b", "a", 1)}, nil, "ends before it begins"},
		{three, 1, []Cell{cell("b", "d", 1), cell("a", "c", 1)}, nil, "range:a..c and range:b..d have keys in common"},
		{three, 1, []Cell{cell("a", "\x00", 1), cell("z", "", 1)}, nil, "range:a.. and key:z have keys in common"},
		{three, 1, []Cell{cell("a", "", 1), cell("a", "", 2)}, nil, "key:a and key:a have keys in common"},
		{three, 1, make([]Cell, 4097), nil, "4097 keys and ranges"},
		{three, 1, nil, make([]Set, 3), "3 hash buckets"},
		{three, 1, nil, make([]Set, 1<<17), "131072 hash buckets"},
		{three, 1, nil, []Set{0, 16}, "bucket 1 of 2"},
	} {
		_, err := New(test.members, test.fallback, test.cells, test.buckets)
		if !errors.Is(err, ErrConfiguration) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want an ErrConfiguration that says %q", err, test.want)
		}
	}
}

// TestNewLeavesItsArguments: they stay as they are, and what becomes of them later does not change a
// configuration.
func TestNewLeavesItsArguments(t *testing.T) {
	members := []machine.NodeID{10, 20, 30}
	cells := []Cell{cell("m", "m\x00", 2), cell("b", "c", 4)}
	buckets := []Set{1, 0, 1, 2}
	c := must(t)(New(members, 1, cells, buckets))
	if got, want := fmt.Sprint(members, cells, buckets), fmt.Sprint([]machine.NodeID{10, 20, 30}, []Cell{cell("m", "m\x00", 2), cell("b", "c", 4)}, []Set{1, 0, 1, 2}); got != want {
		t.Errorf("what a configuration is made of has become %s, was %s", got, want)
	}
	want := c.Format(nil)
	members[0], cells[0], cells[1], buckets[3] = 1, cell("z", "", 1), cell("y", "", 1), 4
	if got := c.Format(nil); got != want || c.Holders([]byte("m")) != 2 || c.Members()[0] != 10 {
		t.Errorf("a configuration became %s with its arguments, was %s", got, want)
	}
}

// TestLimitsAreAllowed: a configuration may be as large as its limits say.
func TestLimitsAreAllowed(t *testing.T) {
	many := make([]machine.NodeID, 64)
	for i := range many {
		many[i] = machine.NodeID(i + 1)
	}
	cells := make([]Cell, maxCells)
	for i := range cells {
		cells[i] = cell(fmt.Sprintf("%04d", i), "", 1)
	}
	long := strings.Repeat("k", maxKey)
	for name, of := range map[string]func() (*Configuration, error){
		"64 members":     func() (*Configuration, error) { return New(many, 1<<63, nil, nil) },
		"the most cells": func() (*Configuration, error) { return New(three, 1, cells, nil) },
		"a long key":     func() (*Configuration, error) { return New(three, 1, []Cell{cell(long, "", 1)}, nil) },
		"a long end":     func() (*Configuration, error) { return New(three, 1, []Cell{cell("a", long, 1)}, nil) },
		"all buckets":    func() (*Configuration, error) { return New(three, 1, nil, make([]Set, MaxBuckets)) },
		"every holder":   func() (*Configuration, error) { return New(three, 7, []Cell{cell("a", "", 7)}, []Set{7, 4}) },
	} {
		if _, err := of(); err != nil {
			t.Errorf("%s: %v, want a configuration", name, err)
		}
	}
}

func TestHolders(t *testing.T) {
	buckets := []Set{0, 2}
	c := must(t)(New(three, 1, []Cell{
		cell("m", "", 4), cell("c", "f", 6), cell("f", "g", 3), cell("x", "\x00", 5),
	}, buckets))
	for _, test := range []struct {
		key  string
		want Set
	}{
		{"c", 6}, {"e\xff", 6}, {"f", 3}, {"f\xff", 3}, {"m", 4}, {"x", 5}, {"\xff\xff", 5},
		{"b", c.elsewhere([]byte("b"))}, {"g", c.elsewhere([]byte("g"))}, {"m\x00", c.elsewhere([]byte("m\x00"))},
	} {
		if got := c.Holders([]byte(test.key)); got != test.want {
			t.Errorf("%q is held by %03b, want %03b", test.key, got, test.want)
		}
	}
	seen := map[Set]bool{}
	for i := range 100 {
		key := fmt.Appendf(nil, "h%d", i)
		got := c.Holders(key)
		if want := []Set{1, 2}[Bucket(key, 2)]; got != want {
			t.Errorf("%q is held by %03b, want %03b", key, got, want)
		}
		seen[got] = true
	}
	if len(seen) != 2 {
		t.Errorf("100 keys fell into %d of 2 buckets", len(seen))
	}
	for _, test := range []struct {
		key, end    string
		every, some Set
	}{
		{"c", "f", 6, 6},     // a cell
		{"c", "g", 2, 7},     // two cells that touch
		{"d", "dd", 6, 6},    // a part of one
		{"y", "\x00", 5, 5},  // a part of one that has no end
		{"c", "h", 0, 7},     // and what is in none
		{"g", "h", 0, 3},     // only what is in none: all buckets
		{"m", "m\x00", 4, 4}, // one key, written as a range
		{"a", "a\x00", c.elsewhere([]byte("a")), c.elsewhere([]byte("a"))},
		{"\x00", "\x00", 0, 7}, // the whole space
		{"b", "a", 7, 0},       // nothing
		{"b", "b", 7, 0},       // nothing
	} {
		every, some := c.HoldersOfRange([]byte(test.key), []byte(test.end))
		if every != test.every || some != test.some {
			t.Errorf("%q to %q: %03b hold it and %03b a part, want %03b and %03b", test.key, test.end, every, some, test.every, test.some)
		}
	}
	if every, some := c.Everything(); every != 0 || some != 7 {
		t.Errorf("%03b hold everything and %03b something, want nobody and all", every, some)
	}
	if allocs := testing.AllocsPerRun(100, func() { c.Holders([]byte("m")) }); allocs > 0 {
		t.Errorf("Holders allocates %g times", allocs)
	}
}

// randomConfiguration draws cells from a small space of keys, so that they touch.
func randomConfiguration(t testing.TB, rnd *rand.Rand) *Configuration {
	const letters = "abcdefgh"
	var cells []Cell
	for at := 0; at < len(letters); at++ {
		holders := Set(1 + rnd.IntN(7))
		switch rnd.IntN(4) {
		case 0:
			cells = append(cells, cell(letters[at:at+1], "", holders))
		case 1:
			to := at + 1 + rnd.IntN(3)
			end := "\x00"
			if to < len(letters) {
				end = letters[to : to+1]
			}
			cells = append(cells, cell(letters[at:at+1], end, holders))
			at = to - 1
		}
	}
	buckets := make([]Set, []int{0, 1, 2, 8}[rnd.IntN(4)])
	for i := range buckets {
		buckets[i] = Set(rnd.IntN(8))
	}
	rnd.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	return must(t)(New(three, Set(1+rnd.IntN(7)), cells, buckets))
}

// probes are the keys of the small space, and some between.
var probes = func() (keys [][]byte) {
	for a := byte('a'); a <= 'i'; a++ {
		keys = append(keys, []byte{a}, []byte{a, 0}, []byte{a, 'q'}, []byte{a, 'r', 's'})
	}
	return keys
}()

// TestRangesHoldTheirKeys: a holder of a range holds its keys; a holder of one of its keys
// holds some of it. And a change is known for what it is.
func TestRangesHoldTheirKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	exact := 0
	for range 2000 {
		c := randomConfiguration(t, rnd)
		from, to := probes[rnd.IntN(len(probes))], probes[rnd.IntN(len(probes))]
		every, some := c.HoldersOfRange(from, to)
		inAll, inAny := Set(7), Set(0)
		for _, key := range probes {
			if bytes.Compare(from, key) <= 0 && bytes.Compare(key, to) < 0 {
				inAll &= c.Holders(key)
				inAny |= c.Holders(key)
			}
		}
		if every&^inAll != 0 || inAny&^some != 0 {
			t.Fatalf("%s: %q to %q: %03b hold it and %03b a part, but all keys tried are held by %03b, some by %03b", c.Format(nil), from, to, every, some, inAll, inAny)
		}
		if every == inAll && some == inAny {
			exact++
		}
	}
	if exact < 1000 {
		t.Errorf("only %d of 2,000 ranges were exact: they hold too little, or too much", exact)
	}
}

func TestDiff(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		a, b := randomConfiguration(t, rnd), randomConfiguration(t, rnd)
		changes, err := Diff(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if same, _ := Diff(a, a); same != nil {
			t.Fatalf("a configuration differs from itself: %v", same)
		}
		for _, key := range probes {
			gained, lost := b.Holders(key)&^a.Holders(key), a.Holders(key)&^b.Holders(key)
			var toldGained, toldLost Set
			inRange := false
			for _, c := range changes {
				if c.Key != nil && spanOf(string(c.Key), string(c.End)).covers(spanOf(string(key), "")) {
					inRange = true
					toldGained, toldLost = c.Gained, c.Lost
				}
			}
			inCell := inCell(a.spans, spanOf(string(key), "")) || inCell(b.spans, spanOf(string(key), ""))
			for _, c := range changes {
				if !inCell && c.Key == nil && Bucket(key, c.Buckets) == c.Bucket {
					toldGained, toldLost = c.Gained, c.Lost
				}
			}
			if gained&^toldGained != 0 || lost&^toldLost != 0 {
				t.Fatalf("%s\n%s\n%q gains %03b and loses %03b, told %03b and %03b", a.Format(nil), b.Format(nil), key, gained, lost, toldGained, toldLost)
			}
			if !inRange && (toldGained != gained || toldLost != lost) {
				t.Fatalf("%s\n%s\n%q, in a bucket, gains %03b and loses %03b, told %03b and %03b", a.Format(nil), b.Format(nil), key, gained, lost, toldGained, toldLost)
			}
		}
	}
	a := must(t)(New(three, 7, nil, nil))
	b := must(t)(New(three, 7, []Cell{cell("k", "", 3)}, nil))
	changes, _ := Diff(a, b)
	if got, want := fmt.Sprint(changes), fmt.Sprint([]Change{{Key: []byte("k"), End: []byte{}, Lost: 4}}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Losers(changes); got != 4 {
		t.Errorf("losers are %03b, want 100", got)
	}
	if _, err := Diff(a, must(t)(New(three[:2], 1, nil, nil))); !errors.Is(err, ErrConfiguration) {
		t.Errorf("comparing groups of different members: %v, want ErrConfiguration", err)
	}
}

func TestRebase(t *testing.T) {
	c := must(t)(New(three, 1, []Cell{cell("a", "", 2), cell("b", "c", 6)}, []Set{0, 4}))
	got := must(t)(c.Rebase([]machine.NodeID{5, 20, 30}, 30))
	want := must(t)(New([]machine.NodeID{5, 20, 30}, 4, []Cell{cell("a", "", 6), cell("b", "c", 6)}, nil))
	if !got.Equal(want) {
		t.Errorf("got %s, want %s", got.Format(nil), want.Format(nil))
	}
	if _, err := c.Rebase(three, 5); !errors.Is(err, ErrConfiguration) {
		t.Errorf("a leader from elsewhere: %v, want ErrConfiguration", err)
	}
	if got := c.Place(20); got != 1 {
		t.Errorf("member 20 has place %d, want 1", got)
	}
}

// TestOneForm: what says the same is the same.
func TestOneForm(t *testing.T) {
	want := must(t)(New(three, 3, []Cell{cell("a", "", 1)}, nil))
	for _, c := range []*Configuration{
		must(t)(New(three, 3, []Cell{cell("a", "a\x00", 1)}, nil)),
		must(t)(New(three, 4, []Cell{cell("a", "", 1)}, []Set{3})),
		must(t)(New(three, 3, []Cell{cell("a", "", 1)}, []Set{3, 0, 3, 3})),
		must(t)(New(three, 4, []Cell{cell("a", "", 1)}, []Set{3, 3, 3, 3})),
	} {
		if !c.Equal(want) || !bytes.Equal(c.Encode(), want.Encode()) {
			t.Errorf("%s is not %s", c.Format(nil), want.Format(nil))
		}
	}
}

// TestEqualSeesEverything: no part of a configuration may change unnoticed, for what is equal is not
// proposed.
func TestEqualSeesEverything(t *testing.T) {
	of := func(members []machine.NodeID, fallback Set, cells []Cell, buckets ...Set) *Configuration {
		return must(t)(New(members, fallback, cells, buckets))
	}
	a := of(three, 1, []Cell{cell("a", "", 2), cell("b", "c", 6)}, 0, 4)
	if !a.Equal(of(three, 1, []Cell{cell("a", "", 2), cell("b", "c", 6)}, 0, 4)) {
		t.Error("two configurations that say the same differ")
	}
	for what, b := range map[string]*Configuration{
		"its members":         of([]machine.NodeID{three[0], three[1], three[2] + 1}, 1, []Cell{cell("a", "", 2), cell("b", "c", 6)}, 0, 4),
		"its default":         of(three, 2, []Cell{cell("a", "", 2), cell("b", "c", 6)}, 0, 4),
		"a cell's key":        of(three, 1, []Cell{cell("a", "", 2), cell("aa", "c", 6)}, 0, 4),
		"a cell's end":        of(three, 1, []Cell{cell("a", "", 2), cell("b", "d", 6)}, 0, 4),
		"a cell's holders":    of(three, 1, []Cell{cell("a", "", 2), cell("b", "c", 5)}, 0, 4),
		"the number of cells": of(three, 1, []Cell{cell("a", "", 2)}, 0, 4),
		"a bucket":            of(three, 1, []Cell{cell("a", "", 2), cell("b", "c", 6)}, 4, 4),
	} {
		if a.Equal(b) || b.Equal(a) {
			t.Errorf("configurations that differ in %s are the same", what)
		}
	}
}

// A configuration never changes, whatever is done with what it has given.
func TestWhatAConfigurationGivesIsACopy(t *testing.T) {
	members := slices.Clone(three)
	c := must(t)(New(members, 1, []Cell{cell("k", "", 2)}, []Set{2, 4}))
	before := c.Encode()
	c.Members()[0], c.Cells()[0], c.Buckets()[0], members[1] = 99, cell("x", "", 4), 7, 98
	if !bytes.Equal(c.Encode(), before) {
		t.Errorf("a configuration was changed by what it has given:\n%x, was\n%x", c.Encode(), before)
	}
}

// In another group, under another leader, each part keeps the holders that are there: the default
// as well as cells and buckets.
func TestRebaseKeepsWhoIsThere(t *testing.T) {
	c := must(t)(New(three, 3, []Cell{cell("k", "", 6)}, []Set{4, 0}))
	members := []machine.NodeID{5, 20, 40}
	got := must(t)(c.Rebase(members, 40))
	want := must(t)(New(members, 6, []Cell{cell("k", "", 6)}, []Set{4, 0}))
	if !got.Equal(want) {
		t.Errorf("led by 40: got %s, want %s", got.Format(nil), want.Format(nil))
	}
}

// A range without an end goes on behind each cell that it meets.
func TestOpenRanges(t *testing.T) {
	c := must(t)(New(three, SetOf(0), []Cell{cell("b", "d", SetOf(0, 1)), cell("f", "h", SetOf(0, 2)), cell("p", "\x00", SetOf(0, 1, 2))}, nil))
	for from, want := range map[string][2]Set{
		"a": {SetOf(0), SetOf(0, 1, 2)},
		"c": {SetOf(0), SetOf(0, 1, 2)},
		"d": {SetOf(0), SetOf(0, 1, 2)},
		"q": {SetOf(0, 1, 2), SetOf(0, 1, 2)},
	} {
		if every, some := c.HoldersOfRange([]byte(from), []byte("\x00")); every != want[0] || some != want[1] {
			t.Errorf("from %q on: all of it is held by %b and some by %b, want %b and %b", from, every, some, want[0], want[1])
		}
	}
	c = must(t)(New(three, SetOf(0), []Cell{cell("b", "d", SetOf(0, 1)), cell("f", "h", SetOf(0, 2))}, nil))
	if every, some := c.HoldersOfRange([]byte("c"), []byte("\x00")); every != SetOf(0) || some != SetOf(0, 1, 2) {
		t.Errorf("from the midst of the first cell on: all of it is held by %b and some by %b: the second cell and what is in none were left out", every, some)
	}
	if every, some := c.Everything(); every != SetOf(0) || some != SetOf(0, 1, 2) {
		t.Errorf("all of everything is held by %b and some by %b", every, some)
	}
}
