package holder

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

// Calls are the calls of a Leaser that are under way. Close cuts them short.
type Calls struct {
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	ended  func(error) error // makes the callers' error when ctx has ended, and not by Close

	mu    sync.Mutex
	under sync.WaitGroup
}

// NewCalls is for a Leaser that ends with ctx, too. Callers then get the error that ended makes
// from the cause. It may be nil if ctx does not end.
func NewCalls(ctx context.Context, ended func(cause error) error) *Calls {
	c := &Calls{ended: ended}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// Close lets no call begin any more, ends those that are under way, and waits for them.
func (c *Calls) Close() {
	c.mu.Lock()
	c.cancel(tenure.ErrClosed)
	c.mu.Unlock()
	c.under.Wait()
}

// Err is why no call may begin; nil as long as calls may. A Leaser that was closed says
// tenure.ErrClosed.
func (c *Calls) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	why := context.Cause(c.ctx)
	if errors.Is(why, tenure.ErrClosed) {
		return tenure.ErrClosed
	}
	return c.ended(why)
}

// CutShort reports whether Close has ended a call, and not its caller, whose context is outer.
func (c *Calls) CutShort(outer context.Context) bool {
	return outer.Err() == nil && errors.Is(c.Err(), tenure.ErrClosed)
}

// enter registers a call that Close waits for, until Leave.
func (c *Calls) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	c.under.Add(1)
	return nil
}

// Leave ends a call.
func (c *Calls) Leave() { c.under.Done() }

// Begin is Enter for a call that needs a context of its own, which ends with ctx or with Close.
// The function that it returns ends the call.
func (c *Calls) Begin(ctx context.Context) (context.Context, func(), error) {
	if err := c.enter(); err != nil {
		return nil, nil, err
	}
	ctx, end := c.merge(ctx)
	return ctx, func() { end(); c.Leave() }, nil
}

// merge returns a context that ends with ctx or with Close.
func (c *Calls) merge(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(c.Err()) })
	return ctx, func() { stop(); cancel(nil) }
}

// A Call is a call that is under way. It ends with its caller's context or with Close. It has
// no context of its own, which would cost more than the rest of a claim.
type Call struct {
	calls *Calls
	ctx   context.Context
	outer context.Context // the caller's: it ends not before ctx
	// Try: the call does not wait for other holders.
	Try bool
}

// Call enters a call of Close's. It is ended by Leave.
func (c *Calls) Call(ctx context.Context) (Call, error) {
	return Call{calls: c, ctx: ctx, outer: ctx}, c.enter()
}

// Within bounds the call by a patience of the engine's own. The function frees the bound.
func (c Call) Within(patience time.Duration) (Call, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, patience, ErrPatience)
	c.ctx = ctx
	return c, cancel
}

// ErrPatience is an engine's own: it is no deadline of the caller's that has passed.
var ErrPatience = errors.New("waited for some seconds")

// Context makes a context that ends with the call. The function frees it.
func (c Call) Context() (context.Context, func()) { return c.calls.merge(c.ctx) }

// Cut returns why the call is over, and nil while it is not.
func (c Call) Cut() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return c.calls.Err()
}

// cutShort reports whether Close has ended the call, and not its caller.
func (c Call) cutShort() bool { return c.calls.CutShort(c.outer) }

// Wait lets d pass, or returns why the call is over.
func (c Call) Wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-c.ctx.Done():
	case <-c.calls.ctx.Done():
	}
	return c.Cut()
}

// Await returns the next value of a channel; false if the call ends first. Of a channel that is
// closed it returns the zero value, and true.
func Await[T any](c Call, from <-chan T) (v T, ok bool) {
	select {
	case v = <-from:
		return v, true
	case <-c.ctx.Done():
	case <-c.calls.ctx.Done():
	}
	return v, false
}
