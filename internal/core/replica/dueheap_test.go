package replica

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Leases leave the heap in the order in which they are due. Leases that are due at the same time leave
// in the order of their IDs, so that every run does the same. A lease that is removed earlier does not
// disturb the order of the others.
func TestLeasesLeaveInOrder(t *testing.T) {
	var h dueHeap
	var all []*lease
	for i := range 40 {
		l := &lease{id: int64(i * 17 % 40), due: machine.Mono(i % 5)}
		all = append(all, l)
		h.add(l)
	}
	for range 25 {
		if h.next() != all[h.ordered] {
			t.Fatal("leases are ordered in another order than they came in")
		}
		h.order()
	}
	for _, i := range []int{0, 24, 25, 39, 30, 7} { // ordered and not, first and last
		h.remove(all[i])
		if all[i].slot != -1 {
			t.Errorf("a lease that was removed is in slot %d", all[i].slot)
		}
		for slot, l := range h.all {
			if int(l.slot) != slot || slot > 0 && slot < h.ordered && h.Less(slot, (slot-1)/2) {
				t.Fatalf("without %d: lease %d in slot %d of %d that are ordered believes in %d", i, l.id, slot, h.ordered, l.slot)
			}
		}
	}
	if h.ordered != 22 || len(h.all) != 34 {
		t.Errorf("%d leases are ordered of %d, want 22 of 34", h.ordered, len(h.all))
	}
	for n := 0; h.next() != nil && n < 40; n++ {
		h.order()
	}
	var got []*lease
	for h.Len() > 0 {
		got = append(got, h.all[0])
		h.remove(h.all[0])
	}
	if len(got) != 34 || len(h.all) > 0 {
		t.Errorf("%d leases have left, and %d are there", len(got), len(h.all))
	}
	if !slices.IsSortedFunc(got, func(a, b *lease) int {
		if a.due != b.due {
			return int(a.due - b.due)
		}
		return int(a.id - b.id)
	}) {
		t.Error("leases have left out of order")
	}
}
