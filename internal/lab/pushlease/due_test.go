package pushlease

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// The next alarm is for the promise that runs out first, of any holder, or for the end of promises that
// earlier lives may have made. A grantor is bound to holders whose promises have not run out, and to
// everyone until that end.
func TestWhatIsDueFirst(t *testing.T) {
	const never = machine.Never
	for _, tc := range []struct {
		name     string
		until    []machine.Mono // of members 2, 3 and so on
		forgot   machine.Mono
		due      machine.Mono // at 10
		holders  []machine.NodeID
		everyone bool
	}{
		{"nothing is promised", nil, 0, never, nil, false},
		{"all have run out", []machine.Mono{5, 10, 0}, 10, never, nil, false},
		{"the first runs out first", []machine.Mono{11, 30, 20}, 0, 11, []machine.NodeID{2, 3, 4}, false},
		{"the second does", []machine.Mono{30, 12, 20}, 0, 12, []machine.NodeID{2, 3, 4}, false},
		{"the last does", []machine.Mono{30, 20, 13}, 0, 13, []machine.NodeID{2, 3, 4}, false},
		{"one has run out", []machine.Mono{30, 10, 20}, 0, 20, []machine.NodeID{2, 4}, false},
		{"earlier lives come first", []machine.Mono{30, 20}, 15, 15, []machine.NodeID{2, 3}, true},
		{"earlier lives come last", []machine.Mono{30, 20}, 40, 20, []machine.NodeID{2, 3}, true},
		{"earlier lives alone", []machine.Mono{9}, 11, 11, nil, true},
	} {
		g := &grantor{forgot: tc.forgot}
		for i, until := range tc.until {
			g.holders = append(g.holders, pushed{Lifetime: quorumlease.Lifetime{Member: machine.NodeID(i + 2), Boot: 5}, until: until})
		}
		if due := g.Due(10); due != tc.due {
			t.Errorf("%s: due is %d, want %d", tc.name, due, tc.due)
		}
		lives, everyone := g.Holders(10)
		var holders []machine.NodeID
		for _, l := range lives {
			holders = append(holders, l.Member)
		}
		if !slices.Equal(holders, tc.holders) || everyone != tc.everyone {
			t.Errorf("%s: it is bound to %v, everyone %v; want %v, %v", tc.name, holders, everyone, tc.holders, tc.everyone)
		}
	}
}

// The next turn is that of the holder whose turn comes first, among those that are to have promises;
// and suspects are those that have acknowledged nothing.
func TestWhoseTurnIsNext(t *testing.T) {
	g := &grantor{}
	if next := g.Next(); next != machine.Never {
		t.Errorf("where nobody is to have promises, the next turn is at %d", next)
	}
	for _, order := range [][]machine.Mono{{20, 30, 40}, {30, 20, 40}, {40, 30, 20}} {
		g.holders = []pushed{{Lifetime: quorumlease.Lifetime{Member: 9, Boot: 1}, next: 5}} // which is to have none
		for i, next := range order {
			g.holders = append(g.holders, pushed{Lifetime: quorumlease.Lifetime{Member: machine.NodeID(i + 10), Boot: 1}, pushing: true, next: next, suspect: i != 1})
		}
		if next := g.Next(); next != 20 {
			t.Errorf("turns are at %v, and the next is at %d, want 20", order, next)
		}
		if suspects := g.Suspects(); !slices.Equal(suspects, []machine.NodeID{10, 12}) {
			t.Errorf("suspected are %v, want 10 and 12", suspects)
		}
	}
}
