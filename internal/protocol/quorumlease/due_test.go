package quorumlease

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// The next alarm is for the promise that runs out first, of any holder, or for the end of promises that earlier lives
// may have made. A grantor is bound to those whose promises have not run out, and to everyone until that end.
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
		g := &Grantor{forgot: tc.forgot}
		for i, until := range tc.until {
			g.promises = append(g.promises, promise{Lifetime: Lifetime{Member: machine.NodeID(i + 2), Boot: 5}, until: until})
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
