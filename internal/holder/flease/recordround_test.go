package flease

import (
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

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
		"one that misses others":     {ours(1, answer(7, false, 5)), ours(1, answer(7, false, 5)), 1},
		"one that missed others":     {ours(1, answer(7, false, 5)), ours(1, answer(7, true, 5)), 1},
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
	restored := answer(7, false, 5)
	restored.Restored = true
	for what, tt := range map[string]struct {
		before, now round
		want        int
	}{
		"one has a state":         {of(1, restored), of(1, restored), 1},
		"one had a state":         {of(1, restored), of(1, answer(7, false, 5)), 1},
		"both":                    {of(1, answer(7, false, 5)), of(1, answer(7, false, 5)), 2},
		"one was whole before":    {of(1, answer(7, true, 5)), of(1, answer(7, false, 5)), 1},
		"one is whole by now":     {of(1, answer(7, false, 5)), of(1, answer(7, true, 5)), 1},
		"one forgot between":      {of(1, answer(7, false, 5)), of(1, answer(8, false, 5)), 1},
		"another list":            {of(1, answer(7, false, 5)), of(2, answer(7, false, 5)), 0},
		"one did not answer then": {round{epoch: 1, answers: map[machine.NodeID]recordAnswer{2: answer(1, false, 5)}}, of(1, answer(7, false, 5)), 1},
	} {
		if got := len(tt.now.blank(tt.before)); got != tt.want {
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

// TestBegunAnew: a peer that was blank at the moment at which the records began anew, in the same life, has begun with them.
func TestBegunAnew(t *testing.T) {
	for what, tt := range map[string]struct {
		whole bool
		began map[machine.NodeID]uint32
		want  bool
	}{
		"it was among them":            {true, map[machine.NodeID]uint32{1: 7, 2: 8}, true},
		"it was among them in a life":  {true, map[machine.NodeID]uint32{1: 6, 2: 8}, false},
		"others were":                  {true, map[machine.NodeID]uint32{2: 8, 3: 9}, false},
		"nobody has begun":             {true, nil, false},
		"that one has restarted since": {false, map[machine.NodeID]uint32{1: 7, 2: 8}, true},
	} {
		a := answer(8, tt.whole, 5)
		a.Began = tt.began
		r := round{answers: map[machine.NodeID]recordAnswer{1: answer(7, false, 0), 2: a}}
		if got := r.begun(1, 7); (got != nil) != tt.want || got != nil && !maps.Equal(got, tt.began) {
			t.Errorf("%s: peer 1 in life 7 has begun with %v; want that: %v", what, got, tt.want)
		}
	}
}

// TestConfirmed: a state is the last one if another says so that has forgotten nothing, and none says otherwise.
func TestConfirmed(t *testing.T) {
	remembers, restored, forgot := answer(8, true, 0), answer(8, false, 0), answer(8, false, 0)
	restored.Restored = true
	knows := func(a recordAnswer, lives ...uint32) recordAnswer {
		a.Lives = lives
		return a
	}
	own := restored
	own.Lives = []uint32{}
	for what, tt := range map[string]struct {
		former  uint32
		answers map[machine.NodeID]recordAnswer
		want    bool
	}{
		"there was no state":                     {0, map[machine.NodeID]recordAnswer{1: own, 2: remembers}, false},
		"nobody but itself":                      {5, map[machine.NodeID]recordAnswer{1: own}, false},
		"another has forgotten":                  {5, map[machine.NodeID]recordAnswer{1: own, 2: forgot}, false},
		"another remembers":                      {5, map[machine.NodeID]recordAnswer{1: own, 2: knows(remembers, 5)}, true},
		"another has a state, too":               {5, map[machine.NodeID]recordAnswer{1: own, 2: knows(restored, 5, 9)}, true},
		"another knows of a life since":          {5, map[machine.NodeID]recordAnswer{1: own, 2: knows(remembers, 5, 6)}, false},
		"one of two knows of a life since":       {5, map[machine.NodeID]recordAnswer{1: own, 2: remembers, 3: knows(remembers, 5, 6)}, false},
		"one that has forgotten knows of a life": {5, map[machine.NodeID]recordAnswer{1: own, 2: remembers, 3: knows(forgot, 6)}, false},
	} {
		p := &Peer{self: 1, cfg: Config{Logger: slog.New(slog.DiscardHandler)}}
		p.shelf.former, p.pure.Incarnation = tt.former, 9
		p.shelf.whole = true
		if got := p.confirmed(round{answers: tt.answers}); got != tt.want {
			t.Errorf("%s: the state is the last one: %v, want %v", what, got, tt.want)
		}
		if since := strings.Contains(what, "knows of a life"); p.shelf.whole == since {
			t.Errorf("%s: records may be missing: %v, want %v", what, !p.shelf.whole, since)
		}
	}
}

// TestMovedToTheList: members that are blank begin no records anew while a majority may go by the list before, or by a
// newer one.
func TestMovedToTheList(t *testing.T) {
	list := func(ids ...machine.NodeID) map[machine.NodeID]string {
		m := map[machine.NodeID]string{}
		for _, id := range ids {
			m[id] = "there"
		}
		return m
	}
	for what, tt := range map[string]struct {
		before   map[machine.NodeID]string
		staying  int
		here     []machine.NodeID
		outdated bool
		want     bool
	}{
		"the first list":                     {here: []machine.NodeID{1, 2}, want: true},
		"the first list, and a newer one":    {here: []machine.NodeID{1, 2}, outdated: true},
		"a newcomer and one of three":        {before: list(1, 2, 3), staying: 2, here: []machine.NodeID{3, 4}},
		"a newcomer and two of three":        {before: list(1, 2, 3), staying: 2, here: []machine.NodeID{2, 3, 4}, want: true},
		"two of three":                       {before: list(1, 2, 3), staying: 2, here: []machine.NodeID{2, 3}, want: true},
		"two of four":                        {before: list(1, 2, 3, 4), staying: 4, here: []machine.NodeID{1, 2, 5}, want: true},
		"two of five":                        {before: list(1, 2, 3, 4, 5), staying: 4, here: []machine.NodeID{2, 3, 6}},
		"three of five":                      {before: list(1, 2, 3, 4, 5), staying: 4, here: []machine.NodeID{2, 3, 4}, want: true},
		"nobody stays":                       {before: list(1), staying: 0, here: []machine.NodeID{2}, want: true},
		"three of five, and a newer one too": {before: list(1, 2, 3, 4, 5), staying: 4, here: []machine.NodeID{2, 3, 4}, outdated: true},
	} {
		r := round{before: tt.before, staying: tt.staying, outdated: tt.outdated, answers: map[machine.NodeID]recordAnswer{}}
		for _, id := range tt.here {
			r.answers[id] = recordAnswer{}
		}
		if got := r.moved(); got != tt.want {
			t.Errorf("%s: so many have moved that no majority goes by another list: %v, want %v", what, got, tt.want)
		}
	}
}

// TestAnswersThatCount: the answer of another peer at the address, of another cluster or under another list does not count.
func TestAnswersThatCount(t *testing.T) {
	for what, edit := range map[string]func(*recordAnswer){
		"a member's":          func(*recordAnswer) {},
		"of no keeper":        func(a *recordAnswer) { a.Keeper = 0 },
		"of another peer":     func(a *recordAnswer) { a.Self = 3 },
		"of another cluster":  func(a *recordAnswer) { a.Cluster = "d" },
		"of an earlier epoch": func(a *recordAnswer) { a.Epoch = 3 },
		"of a later epoch":    func(a *recordAnswer) { a.Epoch = 5 },
		"of another list":     func(a *recordAnswer) { a.List = 7 },
	} {
		a := recordAnswer{Keeper: 1, Self: 2, Cluster: "c", Epoch: 4, List: 6}
		edit(&a)
		err := a.check(2, "c", 4, 6)
		if (err == nil) != (what == "a member's") {
			t.Errorf("an answer that is %s counts: %v", what, err)
		}
		if other := a.Epoch != 4; errors.Is(err, errOtherEpoch) != other {
			t.Errorf("an answer that is %s is taken for one of another epoch: %v", what, err)
		}
	}
}

// TestNoRoom: a member that is full has room for the names that it has.
func TestNoRoom(t *testing.T) {
	full := answer(1, true, 5)
	full.Full = true
	r := round{answers: map[machine.NodeID]recordAnswer{1: full, 2: answer(2, true, 5)}}
	for name, want := range map[string]int{"x": 0, "y": 1} {
		if got := r.full(kept{Name: name, Token: 6}); got != want {
			t.Errorf("one of two is full, and keeps x: %d have no room for %s, want %d", got, name, want)
		}
	}
}
