package abcast

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// A member that is told of instances which have ordered nothing goes on from there. It was
// behind by no message, so its owner keeps what it has.
func TestInstancesThatOrderNothing(t *testing.T) {
	m, err := New(Config{
		Consensus: fastct.Config{ID: 1, Members: []machine.NodeID{1, 2, 3}, Retry: time.Second, Lambda: 10},
		Life:      1, BatchCount: 4, BatchBytes: 1000, PendingCount: 10, PendingBytes: 10_000, Pipeline: 1, Relay: time.Second, Clients: 3,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Ready()
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
