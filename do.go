package tenure

import (
	"context"
	"errors"
	"fmt"
)

// Do waits for the claim, runs fn under the lease, and releases the lease after
// fn has returned. The context of fn ends when the lease does, with a cause that
// wraps ErrLost; fn must then stop, and return soon. If the lease was lost
// before fn returned, Do's error wraps ErrLost even if fn's is nil, for the end
// of the work was not guarded.
func Do(ctx context.Context, l Leaser, c Claim, fn func(ctx context.Context, lease Lease) error) error {
	lease, err := l.Acquire(ctx, c)
	if err != nil {
		return err
	}
	return run(ctx, lease, fn)
}

// TryDo is Do for a claim that does not wait: its error wraps ErrHeld if the claim cannot be admitted at
// once, and fn was not called.
func TryDo(ctx context.Context, l Leaser, c Claim, fn func(ctx context.Context, lease Lease) error) error {
	lease, err := l.TryAcquire(ctx, c)
	if err != nil {
		return err
	}
	return run(ctx, lease, fn)
}

// run calls fn with a context that ends with the lease, then releases it.
func run(ctx context.Context, lease Lease, fn func(context.Context, Lease) error) (err error) {
	held, cancel := context.WithCancelCause(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-lease.Done():
			cancel(lease.Err())
		case <-held.Done():
		}
	}()
	// Deferred, so that a panic in fn releases as well.
	defer func() {
		lost := lease.Check()
		cancel(nil)
		<-watching
		// The caller's context may be over; the release must be tried even so.
		// Engines bound it by the deadline, when it no longer matters.
		released := lease.Release(context.WithoutCancel(ctx))
		switch {
		case lost != nil:
			err = errors.Join(err, fmt.Errorf("the work under %q was not guarded to its end: %w", lease.Name(), lost))
		case released != nil:
			err = errors.Join(err, fmt.Errorf("release %q: %w", lease.Name(), released))
		}
	}()
	return fn(held, lease)
}
