package holder

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// noted is a lease whose record is set.
type noted struct{ *Lease }

func (noted) Token() uint64                                   { return 1 }
func (noted) Release(context.Context) error                   { return nil }
func (noted) GiveBack()                                       {}
func (noted) Abandon(context.Context)                         {}
func (noted) AwaitFreed(context.Context, time.Duration) error { return nil }

// TestRecord: what a caller hears of a record, and what ends the call.
func TestRecord(t *testing.T) {
	left := errors.New("the caller has left")
	waits := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, c := range map[string]struct {
		record string
		set    func(context.Context) error
		before func(*Lease)                                  // the call
		during func(*Lease, *Calls, context.CancelCauseFunc) // once set waits
		sets   int
		want   []error // what the error is
		says   string
		not    error
	}{
		"it is set":           {set: func(context.Context) error { return nil }, sets: 1},
		"the longest":         {record: strings.Repeat("x", MaxRecord), set: func(context.Context) error { return nil }, sets: 1},
		"longer":              {record: strings.Repeat("x", MaxRecord+1), want: []error{tenure.ErrClaim}, says: "a record of 2049 bytes; 2048 is the most"},
		"it fails":            {set: func(context.Context) error { return errTrouble }, sets: 1, want: []error{errTrouble}, says: `set the record of "name"`, not: tenure.ErrLost},
		"lost before":         {before: func(l *Lease) { l.Lose(errTrouble) }, want: []error{tenure.ErrLost, errTrouble}},
		"released before":     {before: func(l *Lease) { l.End(tenure.ErrReleased) }, want: []error{tenure.ErrReleased}},
		"lost meanwhile":      {set: waits, sets: 1, during: func(l *Lease, _ *Calls, _ context.CancelCauseFunc) { l.Lose(errTrouble) }, want: []error{tenure.ErrLost, errTrouble}},
		"closed meanwhile":    {set: waits, sets: 1, during: func(_ *Lease, c *Calls, _ context.CancelCauseFunc) { go c.Close() }, want: []error{tenure.ErrClosed}, not: tenure.ErrLost},
		"its caller has left": {set: waits, sets: 1, during: func(_ *Lease, _ *Calls, leave context.CancelCauseFunc) { leave(left) }, want: []error{left}, says: `set the record of "name"`},
	} {
		bubble.Test(t, func(t *testing.T) {
			l := held(&clock.Fake{}, 60)
			calls := NewCalls(context.Background(), nil)
			ctx, leave := context.WithCancelCause(t.Context())
			if c.before != nil {
				c.before(l)
			}
			if c.set == nil { // it should not be set, and could be
				c.set = func(context.Context) error { return nil }
			}
			sets := 0
			ended := make(chan error, 1)
			go func() {
				ended <- Record(ctx, calls, noted{l}, []byte(c.record), func(ctx context.Context) error { sets++; return c.set(ctx) })
			}()
			synctest.Wait()
			if c.during != nil {
				c.during(l, calls, leave)
				synctest.Wait()
			}
			select {
			case err := <-ended:
				if (err == nil) != (c.want == nil) || c.not != nil && errors.Is(err, c.not) || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: the record is set with %v, want %v that says %q, and not %v", name, err, c.want, c.says, c.not)
				}
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("%s: the record is set with %v, want it to be %v", name, err, want)
					}
				}
			default:
				t.Errorf("%s: the call goes on", name)
			}
			if sets != c.sets {
				t.Errorf("%s: the record is set %d times, want %d", name, sets, c.sets)
			}
			l.Lose(errTrouble)
			leave(nil)
			calls.Close() // no call is under way any more
		})
	}
	// A tenure that ends while its record is set successfully has ended all the same: the record may be of its successor's time.
	l := held(&clock.Fake{}, 60)
	calls := NewCalls(context.Background(), nil)
	err := Record(t.Context(), calls, noted{l}, nil, func(context.Context) error { l.Lose(errTrouble); return nil })
	if !errors.Is(err, tenure.ErrLost) {
		t.Errorf("the tenure ended while its record was set: %v, want %v", err, tenure.ErrLost)
	}
	calls.Close()
	if err := Record(t.Context(), calls, noted{held(&clock.Fake{}, 60)}, nil, func(context.Context) error { return nil }); !errors.Is(err, tenure.ErrClosed) {
		t.Errorf("a record is set after Close: %v, want %v", err, tenure.ErrClosed)
	}
}
