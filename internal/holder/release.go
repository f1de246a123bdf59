package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

// Claim is one claim at a store, as its engine implements it. It embeds a Lease.
type Claim interface {
	tenure.Lease
	Core() *Lease
	// GiveBack has the store begin to free the name. It is called at most once, when the tenure has
	// ended by a release, and never for a tenure that was lost.
	GiveBack()
	// AwaitFreed waits until others need not wait for the claim any more, or ctx ends, or the
	// tenure would have ended by itself. left was the time until its deadline. The error is
	// Unconfirmed, or the store's own.
	AwaitFreed(ctx context.Context, left time.Duration) error
	// Abandon is called for a release after the loss. The holder's last message may still be
	// under way, so a lock delay must not be cut short.
	Abandon(ctx context.Context)
}

// Release implements tenure.Lease for the claims of all engines: first the tenure ends, then
// the store is told.
func Release(ctx context.Context, c Claim) error { return begin(c)(ctx) }

// begin ends the tenure and has the store begin to free it. The function that it returns waits
// for that to be confirmed.
func begin(c Claim) func(context.Context) error {
	l := c.Core()
	l.mu.Lock()
	now := l.clocks.Now()
	left := l.leftAt(now)
	l.expire(now)
	first := !l.ended
	l.end(errReleased)
	end := l.why
	l.mu.Unlock()
	if errors.Is(end, tenure.ErrLost) {
		return func(ctx context.Context) error {
			c.Abandon(ctx)
			return end
		}
	}
	if first {
		c.GiveBack()
	}
	return func(ctx context.Context) error { return c.AwaitFreed(ctx, left) }
}

// window is how many releases of a Leaser that closes are under way: a store that gets a
// million at once would be late with all of them.
const window = 4096

// mostErrors is how many errors ReleaseAll returns.
const mostErrors = 10

// ReleaseAll releases the claims of a Leaser that closes, many at a time, in their order. It ends
// when all are confirmed or patience is over. If each is set, patience begins anew with each
// release that is confirmed. It returns no error of a tenure that was lost: the holder knows of
// that.
func ReleaseAll[C Claim](all []C, patience time.Duration, each bool) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	enough := time.AfterFunc(patience, func() { cancel(ErrPatience) })
	defer enough.Stop()
	errs := make([]error, len(all))
	room := make(chan struct{}, window)
	var releases sync.WaitGroup
	for i, c := range all {
		room <- struct{}{}
		wait := begin(c)
		releases.Go(func() {
			defer func() { <-room }()
			switch err := wait(ctx); {
			case err == nil && each:
				enough.Reset(patience)
			case err != nil && !errors.Is(err, tenure.ErrLost):
				errs[i] = fmt.Errorf("%q: %w", c.Name(), err)
			}
		})
	}
	releases.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	return errors.Join(errs[:min(len(errs), mostErrors)]...)
}

// Unconfirmed is the error of a release that the store did not confirm. The lease stands in
// the way of others for so long at most; 0 if that is not known.
func Unconfirmed(left time.Duration, why error) error {
	if left == 0 {
		return fmt.Errorf("the release was not confirmed, the lease ends by itself: %w", why)
	}
	return fmt.Errorf("the release was not confirmed, the lease ends by itself within %v: %w", left.Round(time.Millisecond), why)
}
