package disklease

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// An entry hides nobody if it is this claim's own, and the one that it wrote in time: another claim may have
// written under the same stamp, and this one may have written late before.
func TestWhichEntriesHideNobody(t *testing.T) {
	me, other := machine.ID{1}, machine.ID{2}
	l := &Lease{cfg: Config{ID: me}, timely: 5}
	for _, tt := range []struct {
		name string
		e    entry
		want bool
	}{
		{"its own, written in time", entry{id: me, stamp: 5}, true},
		{"its own, written before", entry{id: me, stamp: 4}, false},
		{"another's of the same stamp", entry{id: other, stamp: 5}, false},
	} {
		if got := l.vain(tt.e); got != tt.want {
			t.Errorf("%s: it hides nobody: %v, want %v", tt.name, got, tt.want)
		}
	}
	if l.timely = 0; l.vain(entry{id: me, stamp: 5}) {
		t.Error("an entry hides nobody, and none was written in time")
	}
}
