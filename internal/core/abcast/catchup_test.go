package abcast

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A member that is told of instances which have ordered nothing goes on from there. It was
// behind by no message, so its owner keeps what it has.
func TestInstancesThatOrderNothing(t *testing.T) {
	m := start(t, three(1)).m
	b := m.Base()
	b.Order.Instance += 5
	m.transferred(machine.Now{}, 2, b)
	if m.order.instance != b.Order.Instance {
		t.Fatalf("it is at instance %d, want %d", m.order.instance, b.Order.Instance)
	}
	for _, out := range m.Ready().Outcomes {
		if in, ok := out.(Installed); ok {
			t.Errorf("its owner is to drop what is before position %d, and it was there", in.Position)
		}
	}
}
