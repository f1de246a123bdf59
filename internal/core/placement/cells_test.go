package placement

import (
	"fmt"
	"strings"
	"testing"
)

// TestSinglingOut: two keys in one bucket that want different holders.
func TestSinglingOut(t *testing.T) {
	for _, policy := range []Policy{Quorum, Cost} {
		s := newStage(t, Settings{Policy: policy, Buckets: 1})
		for range 5 {
			s.read(irl, 2000, "a")
			s.read(va, 1500, "a")
			s.read(jp, 1000, "b")
			s.read(or, 1000, "b")
			s.write(jp, 900, "a")
			s.write(or, 900, "b")
			s.plan(10)
		}
		if a, b := s.Present().Holders([]byte("a")), s.Present().Holders([]byte("b")); a&SetOf(va, irl) != SetOf(va, irl) || b&SetOf(jp, or, irl) != SetOf(jp, or) {
			t.Errorf("%v: a is held by %05b and b by %05b, want each at its readers, and b not at IRL: %s", policy, a, b, s.Present().Format(wide))
		}
		// The hotter key decides for the bucket; but by cost nobody is to hold what only
		// the bucket's other keys have it read.
		if n := len(s.Present().Cells()); n != 1 && (policy == Quorum || n != 2) {
			t.Errorf("%v: %d cells", policy, n)
		}
	}
}

// TestTheRestOfABucket: what has cells does not decide for the keys beside it, which
// are so seldom that nobody tells of them one by one.
func TestTheRestOfABucket(t *testing.T) {
	s := newStage(t, Settings{Policy: Quorum, Buckets: 1})
	for range 5 {
		s.read(irl, 2000, "a")
		s.read(va, 1500, "a")
		s.read(jp, 1800, "b")
		s.read(or, 100, "b")
		s.read(va, fewest-1, "c")
		s.plan(10)
	}
	s.wantHeld("a", SetOf(ca, va, irl))
	s.wantHeld("b", SetOf(jp, ca, or))
	s.wantHeld("c", SetOf(ca, or, va)) // OR is free
}

// TestCellsAreLimited: more keys want cells than there may be.
func TestCellsAreLimited(t *testing.T) {
	s := newStage(t, Settings{Policy: Cost, Buckets: 1, Cells: 7})
	for range 3 {
		for k := range 20 {
			s.read([]int{jp, va, irl}[k%3], 100+k, fmt.Sprint(k))
			s.write(or, 100, fmt.Sprint(k))
		}
		s.plan(10)
	}
	if n := len(s.Present().Cells()); n != 7 {
		t.Errorf("%d cells, want 7", n)
	}
}

// TestWrittenTogether: section 3.9. Each key alone would go to its reader; a write to
// both waits for the holders of both anyhow. A key that is written with ever different
// others does not pull them all together.
func TestWrittenTogether(t *testing.T) {
	s := newStage(t, Settings{Policy: Cost})
	for range 3 {
		s.read(jp, 100, "x")
		s.read(irl, 80, "y")
		s.write(or, 50, "x", "y")
		for i := range 8 {
			s.read(jp, 20, "index")
			s.read(va, 30, fmt.Sprintf("item%d", i))
			s.write(or, 30, "index", fmt.Sprintf("item%d", i))
		}
		s.plan(10)
	}
	x, y := s.Present().Holders([]byte("x")), s.Present().Holders([]byte("y"))
	if x != y || !x.Has(jp) || !x.Has(irl) {
		t.Errorf("x is held by %05b and y by %05b, want both at JP and IRL", x, y)
	}
	d := draft{Planner: s.Planner, hot: byLoad(s.keys, strings.Compare)}
	for _, g := range d.groups() {
		if len(g.keys) > 1 && strings.Join(g.keys, " ") != "x y" {
			t.Errorf("%v are one group", g.keys)
		}
		if g.keys[0] == "x" {
			// 50 writes of both, three times, decayed twice by 10 s of 5 minutes.
			if got := g.load()[sites+or]; got < 140 || got > 150 {
				t.Errorf("the group has %.0f writes, want each write of both counted once", got)
			}
		}
	}
}

// TestRangeCells: a range that is read as a range goes to its readers as a whole.
func TestRangeCells(t *testing.T) {
	s := newStage(t, Settings{Policy: Cost})
	for range 4 {
		times(200, func() { s.counters[irl].ReadRange([]byte("/eu/"), []byte("/eu0")) })
		times(50, func() { s.counters[irl].ReadRange([]byte("/eu/a"), []byte("/eu/b")) }) // within
		s.write(irl, 20, "/eu/a1")
		for i := range 300 { // elsewhere writes prevail
			s.write(jp, 10, fmt.Sprintf("/jp/%d", i))
		}
		s.plan(10)
	}
	every, _ := s.Present().HoldersOfRange([]byte("/eu/"), []byte("/eu0"))
	if !every.Has(irl) || every.Has(jp) {
		t.Errorf("the range is held by %05b, want it at IRL and not at JP", every)
	}
	if got := s.Present().Cells(); len(got) != 1 || got[0].String() != "prefix:/eu/" {
		t.Errorf("cells are %v, want one for the wider range", got)
	}
	s.wantHeld("/jp/1", SetOf(ca))

	for range 100 { // nobody reads it any more
		s.write(jp, 20, "/eu/a1")
		s.plan(60)
	}
	if got := s.Present().Cells(); len(got) != 0 {
		t.Errorf("cells are %v, want none when the range is not read", got)
	}
}
