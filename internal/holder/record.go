package holder

import (
	"context"
	"fmt"
	"sync"

	"github.com/tenure-lease/tenure"
)

// MaxRecord is the length of the longest record that is kept beside a lease, in bytes.
const MaxRecord = 2 << 10

// Record calls set, which sets the record of a claim, with a context that ends with the tenure and with
// Close, too. Its error wraps tenure.ErrLost or tenure.ErrReleased if the tenure has ended, and that of
// set if the record may have been set.
func Record(outer context.Context, calls *Calls, c Claim, record []byte, set func(context.Context) error) error {
	if len(record) > MaxRecord {
		return fmt.Errorf("%w: a record of %d bytes; %d is the most", tenure.ErrClaim, len(record), MaxRecord)
	}
	ctx, end, err := calls.Begin(outer)
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-c.Done():
			cancel(c.Err())
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel(nil)
	if err := c.Check(); err != nil {
		return err
	}
	switch err = set(ctx); {
	case c.Check() != nil: // perhaps before the record was set
		return c.Err()
	case err == nil:
		return nil
	case calls.CutShort(outer):
		return tenure.ErrClosed
	}
	return fmt.Errorf("set the record of %q: %w", c.Name(), err)
}

// ErrForeign is the error for a lease that another Leaser has granted.
var ErrForeign = fmt.Errorf("%w: the lease is another Leaser's", tenure.ErrClaim)
