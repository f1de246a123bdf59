package replica

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// However much is held, the first of it is told since when it was committed; of what stands for
// more a later one is older than it should be, and never younger.
func TestHeldUpSinceTheFirst(t *testing.T) {
	var h heldUp
	const n = 3 * maxCommitMarks
	for i := range uint64(n) {
		h.committed(i+1, machine.Mono(i+1))
	}
	if len(h.marks) > maxCommitMarks {
		t.Errorf("%d marks are kept, want %d at most", len(h.marks), maxCommitMarks)
	}
	now := machine.Mono(2 * n)
	for released := range uint64(n) {
		h.released(released)
		got, least := h.since(now), time.Duration(now)-time.Duration(released+1)
		if got < least || released == 0 && got != least {
			t.Fatalf("with entries up to %d released, the next has waited for %d, want %d or more", released, got, least)
		}
	}
	if h.released(n); h.since(now) != 0 {
		t.Errorf("nothing is held, and it has waited for %v", h.since(now))
	}
}
