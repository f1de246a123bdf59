package flease

import (
	"fmt"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

func newShelf() *shelf { return &shelf{records: map[string]kept{}, fetches: map[string]bool{}} }

// TestOrderOfRecords: of two records of a name a shelf keeps that of the later tenure, and of one tenure the
// later one, in whichever order they come.
func TestOrderOfRecords(t *testing.T) {
	for _, tt := range []struct{ first, second, want kept }{
		{kept{Token: 1, Number: 9}, kept{Token: 2, Number: 1}, kept{Token: 2, Number: 1}},
		{kept{Token: 2, Number: 1}, kept{Token: 1, Number: 9}, kept{Token: 2, Number: 1}},
		{kept{Token: 2, Number: 1}, kept{Token: 2, Number: 2}, kept{Token: 2, Number: 2}},
		{kept{Token: 2, Number: 2}, kept{Token: 2, Number: 1}, kept{Token: 2, Number: 2}},
	} {
		s := newShelf()
		for _, k := range []kept{tt.first, tt.second} {
			if k.Name = "x"; !s.put(k) {
				t.Errorf("a shelf with room refuses %v", k)
			}
		}
		if got := s.records["x"]; got.Token != tt.want.Token || got.Number != tt.want.Number {
			t.Errorf("%v and then %v: the shelf keeps %v, want %v", tt.first, tt.second, got, tt.want)
		}
	}
}

// TestRoomForRecords: a full shelf takes no new names and goes on with those that it has. A shelf that was
// saved takes nothing, for its next life would not know of it, and shows nothing.
func TestRoomForRecords(t *testing.T) {
	s := newShelf()
	for i := range recordsMax {
		if !s.put(kept{Name: fmt.Sprint(i), Token: 1}) {
			t.Fatalf("a shelf with %d records is full", i)
		}
	}
	if s.put(kept{Name: "another", Token: 1}) {
		t.Errorf("a shelf has room for more than %d records", recordsMax)
	}
	if !s.put(kept{Name: "7", Token: 2}) || s.records["7"].Token != 2 {
		t.Error("a full shelf does not replace a record")
	}
	s.save()
	if s.put(kept{Name: "7", Token: 3}) {
		t.Error("a shelf that was saved takes a record that its next life misses")
	}
	if s.show(recordQuestion{Name: "7"}, new(recordAnswer)) {
		t.Error("a shelf that was saved answers, though its next life may go on elsewhere")
	}
}

// TestSavedShelf: the next life of a shelf has its records, and misses some if it did.
func TestSavedShelf(t *testing.T) {
	for _, whole := range []bool{true, false} {
		s, next := newShelf(), newShelf()
		s.whole = whole
		s.put(kept{Name: "x", Token: 3, Number: 2, Data: []byte{0, 255}})
		if err := next.restore(s.save()); err != nil {
			t.Fatal(err)
		}
		if k := next.records["x"]; len(next.records) != 1 || k.compare(s.records["x"]) != 0 || string(k.Data) != "\x00\xff" {
			t.Errorf("the next life has the records %v, want %v", next.records, s.records)
		}
		if next.whole != whole {
			t.Errorf("a shelf that misses no record: %v; in its next life: %v", whole, next.whole)
		}
	}
}

// TestFetches: a record is fetched once at a time, and no more than some at all.
func TestFetches(t *testing.T) {
	s := newShelf()
	if !s.fetching("x") || s.fetching("x") {
		t.Error("a record is fetched twice at one time, or never")
	}
	for i := range 2 * fetchesMax {
		if got := s.fetching(fmt.Sprint(i)); got != (i < fetchesMax-1) {
			t.Fatalf("one more fetch beside %d: %v", i+1, got)
		}
	}
	if s.fetched("x"); !s.fetching("x") {
		t.Error("a record that was fetched cannot be again")
	}
}

// answer is an answer of a peer in one of its lives.
func answer(life uint32, whole bool, token uint64) recordAnswer {
	return recordAnswer{Keeper: life, Epoch: 1, Whole: whole, Records: []kept{{Name: "x", Token: token}}}
}

// TestHeldAtOneMoment: members that have a record count together only if all have had it at one moment: in two
// rounds, one behind the other, in one life of theirs, under one list.
func TestHeldAtOneMoment(t *testing.T) {
	k := kept{Name: "x", Token: 5}
	ours := func(epoch uint64, a recordAnswer) round {
		return round{epoch: epoch, answers: map[machine.NodeID]recordAnswer{1: a, 2: answer(1, true, 5)}}
	}
	for what, tt := range map[string]struct {
		before, now round
		want        int
	}{
		"both":                       {ours(1, answer(7, true, 5)), ours(1, answer(7, true, 5)), 2},
		"a newer one":                {ours(1, answer(7, true, 6)), ours(1, answer(7, true, 6)), 2},
		"one that misses others":     {ours(1, answer(7, false, 5)), ours(1, answer(7, false, 5)), 2},
		"one that has restarted":     {ours(1, answer(7, true, 5)), ours(1, answer(8, true, 5)), 1},
		"one that had it not before": {ours(1, answer(7, true, 4)), ours(1, answer(7, true, 5)), 1},
		"one that has it no more":    {ours(1, answer(7, true, 5)), ours(1, answer(7, true, 4)), 1},
		"another list":               {ours(1, answer(7, true, 5)), ours(2, answer(7, true, 5)), 0},
		"nobody before":              {round{epoch: 1}, ours(1, answer(7, true, 5)), 0},
	} {
		if got := tt.now.holding(k, tt.before); got != tt.want {
			t.Errorf("%s: %d members have it at one moment, want %d", what, got, tt.want)
		}
	}
}

// TestBlankAtOneMoment: members that have forgotten count together only if all miss records at one moment.
func TestBlankAtOneMoment(t *testing.T) {
	of := func(epoch uint64, a recordAnswer) round {
		return round{epoch: epoch, answers: map[machine.NodeID]recordAnswer{1: a, 2: answer(1, false, 5)}}
	}
	for what, tt := range map[string]struct {
		before, now round
		want        int
	}{
		"both":                    {of(1, answer(7, false, 5)), of(1, answer(7, false, 5)), 2},
		"one was whole before":    {of(1, answer(7, true, 5)), of(1, answer(7, false, 5)), 1},
		"one is whole by now":     {of(1, answer(7, false, 5)), of(1, answer(7, true, 5)), 1},
		"one forgot between":      {of(1, answer(7, false, 5)), of(1, answer(8, false, 5)), 1},
		"another list":            {of(1, answer(7, false, 5)), of(2, answer(7, false, 5)), 0},
		"one did not answer then": {round{epoch: 1, answers: map[machine.NodeID]recordAnswer{2: answer(1, false, 5)}}, of(1, answer(7, false, 5)), 1},
	} {
		if got := tt.now.blank(tt.before); got != tt.want {
			t.Errorf("%s: %d members are blank at one moment, want %d", what, got, tt.want)
		}
	}
}

// TestHowManyMustBeHeard: a peer that has forgotten hears from so many that one of them has each record that a
// majority had.
func TestHowManyMustBeHeard(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 7: 4} {
		for heard := range n + 1 {
			r := round{members: n, majority: n/2 + 1, answers: map[machine.NodeID]recordAnswer{}}
			for i := range n {
				r.answers[machine.NodeID(i+1)] = answer(1, i < heard, 0)
			}
			if got := r.sufficient(); got != (heard >= want) {
				t.Errorf("of %d members, %d have shown all that they have: sufficient %v, want %d of them", n, heard, got, want)
			}
		}
	}
}
