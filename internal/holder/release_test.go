package holder

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// recorded is a claim that notes the calls of the runtime.
type recorded struct {
	Lease
	did []string
}

func (c *recorded) Release(ctx context.Context) error { return Release(ctx, c) }
func (c *recorded) note(what string) {
	if c.Err() == nil {
		what += " while held"
	}
	c.did = append(c.did, what)
}
func (c *recorded) GiveBack()               { c.note("give back") }
func (c *recorded) Abandon(context.Context) { c.note("abandon") }
func (c *recorded) AwaitFreed(context.Context, time.Duration) error {
	c.note("await")
	return nil
}

// TestRelease: the tenure ends before the store is told, which is told once; of a tenure that was
// lost it is told nothing, and nothing is left locked.
func TestRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		late time.Duration
		want []string
		is   error
	}{
		"in time":  {59, []string{"give back", "await", "await"}, nil},
		"too late": {60, []string{"abandon", "abandon"}, tenure.ErrLost},
	} {
		var clk clock.Fake
		c := &recorded{Lease: Make(&Clocks{Mono: &clk}, "x", "h", nil)}
		c.Begin(1, 60, 0)
		clk.Advance(tt.late)
		for range 2 {
			// The test would hang at a lock that is left.
			wait := begin(c)
			if !c.mu.TryLock() {
				t.Fatalf("%s: its lock is held: the next call of it would hang", name)
			}
			c.mu.Unlock()
			if err := wait(t.Context()); !errors.Is(err, tt.is) {
				t.Errorf("%s: a release returns %v, want %v", name, err, tt.is)
			}
		}
		if !slices.Equal(c.did, tt.want) {
			t.Errorf("%s: two releases ask the engine for %q, want %q", name, c.did, tt.want)
		}
	}
}
