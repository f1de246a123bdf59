package machine

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Versions are in order of their numbers, and equal ones in that of their writers.
func TestVersionsAreOrdered(t *testing.T) {
	first, last := ID{15: 1}, ID{15: 2}
	want := []Version{{}, {0, first}, {1, ID{}}, {1, first}, {1, last}, {1, ID{0: 1}}, {2, first}, {1<<63 + 1, ID{}}}
	for i, v := range want {
		for k, o := range want {
			if got := v.Compare(o); got < 0 != (i < k) || got > 0 != (i > k) {
				t.Errorf("%v is compared with %v: %d", v, o, got)
			}
		}
	}
	if !slices.IsSortedFunc([]ID{{}, first, last, {14: 1}, {0: 1}}, ID.Compare) {
		t.Error("IDs are out of order")
	}
}

// An ID is shown as a whole, so that two that differ look different.
func TestIDsAreShownAsAWhole(t *testing.T) {
	if got := (ID{0: 0xa1, 15: 0x0f}).String(); got != "a1"+strings.Repeat("00", 14)+"0f" {
		t.Errorf("an ID is %q", got)
	}
}

func TestReadings(t *testing.T) {
	const at = Mono(5 * time.Second)
	if got := at.Add(2 * time.Second); got != Mono(7*time.Second) {
		t.Errorf("two seconds after %d the clock shows %d", at, got)
	}
	if got := at.Sub(Mono(2 * time.Second)); got != 3*time.Second {
		t.Errorf("from 2 s to 5 s it takes %v, want 3s", got)
	}
}
