package broadcast

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// What another member was given holds back a Trim while it is written, and for a while
// after: not for good, for he may have stopped before he answered.
func TestHeld(t *testing.T) {
	const nothing = ^Position(0)
	for name, tc := range map[string]struct {
		gift gift
		want Position
	}{
		"it is being written":          {gift{busy: true, pours: true, from: 5}, 5},
		"he is to answer":              {gift{busy: true, from: 5, until: time.Now().Add(time.Hour)}, 5},
		"he never answered":            {gift{busy: true, from: 5, until: time.Now().Add(-time.Hour)}, nothing},
		"he may ask for what follows":  {gift{from: 5, until: time.Now().Add(time.Hour)}, 5},
		"he has not asked for so long": {gift{from: 5, until: time.Now().Add(-time.Hour)}, nothing},
	} {
		n := &Node{gifts: map[machine.NodeID]*gift{2: &tc.gift}}
		if got := n.held(); got != tc.want {
			t.Errorf("%s: held from %d on, want %d", name, got, tc.want)
		}
		if busy := n.gifts[2] != nil; busy != (tc.gift.busy || tc.want == 5) {
			t.Errorf("%s: remembered: %v", name, busy)
		}
	}
}
