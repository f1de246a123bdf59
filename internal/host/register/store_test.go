package register

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestHeaders that make no sense are told from those that do, at the limits.
func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		change func(h *Header)
		ok     bool
	}{
		{func(*Header) {}, true},
		{func(h *Header) { h.Set = machine.ID{} }, false},
		{func(h *Header) { h.Of, h.Index = 1, 0 }, true},
		{func(h *Header) { h.Of, h.Index = 0, 0 }, false},
		{func(h *Header) { h.Index = 2 }, true},
		{func(h *Header) { h.Index = 3 }, false},
		{func(h *Header) { h.Index = -1 }, false},
		{func(h *Header) { h.Term = 1 }, true},
		{func(h *Header) { h.Term = 0 }, false},
		{func(h *Header) { h.Delay = 1 }, true},
		{func(h *Header) { h.Delay = 0 }, false},
		{func(h *Header) { h.Drift = 0 }, true},
		{func(h *Header) { h.Drift = -1 }, false},
		{func(h *Header) { h.Drift = MaxDrift }, true},
		{func(h *Header) { h.Drift = MaxDrift + 1 }, false},
	} {
		h := header(3, 0)
		c.change(&h)
		if err := h.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v, want it to make sense: %v", h, err, c.ok)
		}
	}
}

// TestQuiet lasts as long as a lease whose δ has grown, for slow clocks; if the header's δ is
// longer still, by that.
func TestQuiet(t *testing.T) {
	h := header(1, 0)
	h.Term, h.Delay = 120*time.Second, time.Second
	if got, want := h.Quiet(), (120+6*10)*time.Second*11/10; got != want {
		t.Errorf("for a δ that may grow to a twelfth of the Term: %v, want %v", got, want)
	}
	h.Delay = 20 * time.Second
	if got, want := h.Quiet(), (120+6*20)*time.Second*11/10; got != want {
		t.Errorf("for a δ of %v: %v, want %v", h.Delay, got, want)
	}
}
