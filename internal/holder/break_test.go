package holder

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure"
)

// Tenures are told apart by their tokens.
func TestTokens(t *testing.T) {
	s := tenure.State{Holders: []tenure.Holding{{Holder: "a", Token: 7}, {Holder: "b", Token: 8}}}
	if got := Tokens(s.Holders); !slices.Equal(got, []uint64{7, 8}) {
		t.Errorf("the tokens are %v, want 7 and 8", got)
	}
	for token, holds := range map[uint64]bool{7: true, 8: true, 9: false} {
		if AnyOf([]uint64{1, token}, s) != holds {
			t.Errorf("token %d: want it to hold: %v", token, holds)
		}
	}
	if AnyOf(nil, s) {
		t.Error("no token holds")
	}
}
