package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

var _ holder.Breaker = (*Leaser)(nil)

// breakTries is how often a claim that ends others by force contends. Another claim may be quicker.
const breakTries = 3

// Break implements holder.Breaker. A claim of ours takes over from those tenures as from the dead,
// without waiting for their ends, and is released at once. Its token is greater than theirs.
func (l *Leaser) Break(ctx context.Context, name string, tenures []tenure.Holding) error {
	tokens := holder.Tokens(tenures)
	c := tenure.Claim{Name: name, Holder: "a command that ends leases by force"}
	for _, h := range tenures {
		c.Slots = max(c.Slots, h.Slots) // there is room for it beside those that remain
	}
	var err error
	for range breakTries {
		var x holder.Claim
		x, err = holder.Admit(ctx, l.calls, engine{l, tokens}, c, true)
		if err == nil {
			if err = x.Release(ctx); err != nil {
				err = fmt.Errorf("break %q: our own claim, which took over: %w", name, err)
			}
			return err
		}
		if !errors.As(err, new(tenure.HeldError)) {
			break
		}
		if s, look := l.Observe(ctx, name); look == nil && !holder.AnyOf(tokens, s) {
			return nil // another took over
		}
	}
	return fmt.Errorf("break %q: %w", name, err)
}
