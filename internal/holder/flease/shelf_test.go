package flease

import (
	"encoding/json"
	"fmt"
	"slices"
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
		{kept{Token: 9}, kept{Token: 2, Over: []stamp{{Token: 9}}}, kept{Token: 2}},
		{kept{Token: 2, Over: []stamp{{Token: 9}}}, kept{Token: 9}, kept{Token: 2}},
		{kept{Token: 2, Over: []stamp{{Token: 9}}}, kept{Token: 10}, kept{Token: 10}},
		{kept{Token: 3, Over: []stamp{{Token: 9}}}, kept{Token: 2, Over: []stamp{{Token: 9}, {Token: 8}}}, kept{Token: 2}},
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

// TestOverAnEarlierRecord: a record that is set over one with a greater stamp is behind it. A tenure that was stopped before
// it has put such a record never replaces that of a later tenure, whichever records that one has met.
func TestOverAnEarlierRecord(t *testing.T) {
	var all []kept // all orders out of tokens up to 4 and up to three stamps
	for a := range uint64(5) {
		all = append(all, kept{Token: a})
		for b := range a + 1 {
			all = append(all, kept{Token: b, Over: []stamp{{Token: a}}})
			for c := range b + 1 {
				all = append(all, kept{Token: c, Over: []stamp{{Token: a}, {Token: b}}})
			}
		}
	}
	has := func(k kept, token uint64) bool {
		return k.Token == token || slices.Contains(k.Over, stamp{Token: token})
	}
	judged := 0
	for _, met := range all {
		for token := range uint64(5) {
			k := kept{Token: token + 1}.over(met)
			if met.compare(kept{Token: token + 1}) > 0 && k.compare(met) <= 0 {
				t.Fatalf("%v over %v is %v, and that is not behind it", token+1, met, k)
			}
			for _, last := range all {
				for later := token + 2; later < 6; later++ {
					if last.compare(met) < 0 || has(met, later) {
						continue // it has met what was acknowledged, and is of a tenure that begins now
					}
					if b := (kept{Token: later}).over(last); b.compare(k) <= 0 {
						t.Fatalf("%v over %v is %v, and the tenure of %d, which was stopped meanwhile, goes before it with %v over %v", later, last, b, token+1, k, met)
					}
					judged++
				}
			}
		}
	}
	if judged < 1000 {
		t.Errorf("judged %d pairs", judged)
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
	s.save(savedShelf{})
	if s.put(kept{Name: "7", Token: 3}) {
		t.Error("a shelf that was saved takes a record that its next life misses")
	}
	if s.show(recordQuestion{Name: "7"}, new(recordAnswer)) {
		t.Error("a shelf that was saved answers, though its next life may go on elsewhere")
	}
}

// TestSavedShelf: the next life of a shelf has its records. It misses some if the former did, and if others may have been given
// records since, under another list. Else the peer would have to hear from nobody but that the file is its last.
func TestSavedShelf(t *testing.T) {
	for what, tt := range map[string]struct {
		whole        bool
		list         uint64
		alone        bool
		wantWhole    bool
		wantRestored uint32
	}{
		"it missed none":         {whole: true, list: 5, wantRestored: 7},
		"it missed some":         {whole: false, list: 5},
		"under another list":     {whole: true, list: 6},
		"nobody else is there":   {whole: true, list: 5, alone: true, wantWhole: true},
		"alone under a new list": {whole: true, list: 6, alone: true},
	} {
		s, next := newShelf(), newShelf()
		s.whole = tt.whole
		s.put(kept{Name: "x", Token: 3, Number: 2, Over: []stamp{{Token: 9}}, Data: []byte{0, 255}})
		s.heard(2, 77)
		var saved savedShelf
		if err := json.Unmarshal(s.save(savedShelf{List: 5, Life: 7}), &saved); err != nil {
			t.Fatal(err)
		}
		next.restore(saved, tt.list, tt.alone)
		if k := next.records["x"]; len(next.records) != 1 || k.compare(s.records["x"]) != 0 || string(k.Data) != "\x00\xff" {
			t.Errorf("%s: the next life has the records %v, want %v", what, next.records, s.records)
		}
		if next.whole != tt.wantWhole || next.former != tt.wantRestored {
			t.Errorf("%s: in its next life it is whole: %v, and so if life %d was the last; want %v, %d", what, next.whole, next.former, tt.wantWhole, tt.wantRestored)
		}
		if !slices.Equal(next.lives[2], []uint32{77}) {
			t.Errorf("%s: the next life knows the lives %v of another", what, next.lives)
		}
	}
}

// TestLives: a peer remembers the last lives of each other, and each once. A life between that of a file and the present one
// is noticed.
func TestLives(t *testing.T) {
	s := newShelf()
	for _, life := range []uint32{1, 2, 1, 0, 3, 4, 5, 6, 7, 8, 9} {
		s.heard(2, life)
	}
	if want := []uint32{2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(s.lives[2], want) {
		t.Errorf("it has heard of the lives %v, want %v", s.lives[2], want)
	}
	for _, tt := range []struct {
		lives []uint32
		want  bool
	}{
		{nil, false}, {[]uint32{5}, false}, {[]uint32{9}, false}, {[]uint32{5, 9}, false}, {[]uint32{4, 5, 9}, false},
		{[]uint32{5, 6}, true}, {[]uint32{5, 6, 9}, true}, {[]uint32{6}, true},
	} {
		if got := later(tt.lives, 5, []uint32{3, 9}); got != tt.want {
			t.Errorf("the file is of life 5, this is life 9, and others have heard of %v: a later one is noticed: %v, want %v", tt.lives, got, tt.want)
		}
	}
}

// TestWhatAShelfShows: an answer says whether the peer misses records, or has a state that nobody has confirmed. It names those that
// have begun anew under its list, and the lives of the member that asks.
func TestWhatAShelfShows(t *testing.T) {
	s := newShelf()
	s.complete(map[machine.NodeID]uint32{1: 7}, 4)
	s.heard(2, 77)
	a := recordAnswer{Epoch: 4}
	s.show(recordQuestion{From: 2}, &a)
	if !a.Whole || a.Restored || a.Began[1] != 7 || !slices.Equal(a.Lives, []uint32{77}) {
		t.Errorf("a complete peer shows %+v", a)
	}
	a = recordAnswer{Epoch: 5}
	if s.show(recordQuestion{}, &a); a.Began != nil || a.Lives != nil {
		t.Errorf("that records began anew is shown under the list of another epoch, or lives to one that does not ask for them: %+v", a)
	}
	s.miss()
	s.former = 6
	if s.show(recordQuestion{}, &a); a.Whole || !a.Restored {
		t.Errorf("a peer with a state that nobody has confirmed shows %+v", a)
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

// TestEarlierLives: a peer hears from others in which lives it was before, and its next life knows them from its file.
func TestEarlierLives(t *testing.T) {
	s, next := newShelf(), newShelf()
	s.lived([]uint32{3, 4, 7}, 7)
	s.lived([]uint32{4}, 7)
	if want := []uint32{3, 4}; !slices.Equal(s.mine, want) {
		t.Errorf("in life 7 it has heard of the lives %v before, want %v", s.mine, want)
	}
	var saved savedShelf
	if err := json.Unmarshal(s.save(savedShelf{List: 5, Life: 7}), &saved); err != nil {
		t.Fatal(err)
	}
	next.restore(saved, 5, false)
	if !slices.Equal(next.earlier, []uint32{3, 4}) || !slices.Equal(next.mine, []uint32{3, 4, 7}) {
		t.Errorf("the next life knows the lives %v before that of its file, and %v before itself", next.earlier, next.mine)
	}
}
