package flease

import (
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestWhatARoundLacks: the error of a round says how many peers miss no record and how many it takes, and of this
// peer that it misses some, if it does, and whether it has room for them.
func TestWhatARoundLacks(t *testing.T) {
	const restarted, full = "has not heard the records of the others yet", "has no room for the records of others"
	for _, tt := range []struct {
		what string
		own  *recordAnswer
		says string
	}{
		{"this peer has not answered", nil, ""},
		{"it misses none", &recordAnswer{Whole: true}, ""},
		{"it misses none, and is full", &recordAnswer{Whole: true, Full: true}, ""},
		{"it has restarted", &recordAnswer{}, restarted},
		{"it has restarted, and is full", &recordAnswer{Full: true}, full},
	} {
		r := round{members: 5, majority: 3, answers: map[machine.NodeID]recordAnswer{2: {Whole: true}, 4: {Full: true}}}
		want := "1 of 5 peers miss no record, and it takes 3"
		if tt.own != nil {
			if r.answers[1] = *tt.own; tt.own.Whole {
				want = "2 of 5 peers miss no record, and it takes 3"
			}
		}
		got := r.missing(1).Error()
		if !strings.HasPrefix(got, want) || (got == want) != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: the round says %q, want %q and %q", tt.what, got, want, tt.says)
		}
	}
}
