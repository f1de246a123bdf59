package replica

import (
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// A leader's news are of its term, and say what is released and which holders are given up. A holder that was given up in
// another term is not in this one.
func TestWhatTheNewsSay(t *testing.T) {
	r := keyReader(9)
	r.term = 5
	rl := &r.reads
	rl.keys.stop()
	rl.released, rl.stalled, rl.stalledTerm = 8, []machine.NodeID{3}, 5
	if got, want := rl.news(r.moment), (quorumlease.News{Term: 5, Released: 8, Stalled: []machine.NodeID{3}}); !reflect.DeepEqual(got, want) {
		t.Errorf("the news are %+v, want %+v", got, want)
	}
	for _, tt := range []struct {
		member machine.NodeID
		term   uint64
		want   bool
	}{{3, 5, true}, {3, 4, false}, {3, 6, false}, {2, 5, false}} {
		if got := rl.givenUp(tt.member, tt.term); got != tt.want {
			t.Errorf("in term %d member %d is given up: %v, want %v", tt.term, tt.member, got, tt.want)
		}
	}
}
