package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
)

// errGone says that our own key is not in the queue any more.
var errGone = errors.New("our place in the queue is gone: the lease expired or somebody removed the key")

// Acquire implements tenure.Leaser.
func (l *Leaser) Acquire(outer context.Context, c tenure.Claim) (tenure.Lease, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	for {
		x, err := l.queue(ctx, c)
		switch {
		case err == nil:
			return x, nil
		case outer.Err() != nil:
			return nil, l.gaveUp(outer, c.Name, err)
		case ctx.Err() != nil:
			return nil, tenure.ErrClosed
		case !passing(err) && !errors.Is(err, errGone):
			return nil, fmt.Errorf("acquire %q: %w", c.Name, err)
		}
		pause(ctx)
	}
}

// queue joins the queue once and stays in it until admitted.
func (l *Leaser) queue(ctx context.Context, c tenure.Claim) (*lease, error) {
	x, ahead, err := l.join(ctx, c)
	if err != nil {
		return nil, err
	}
	if !x.fits(ahead) {
		err = x.await(ctx)
	}
	if err == nil {
		err = x.hold()
	}
	if err != nil {
		x.abandon()
		return nil, err
	}
	return x, nil
}

// gaveUp is the error of an Acquire whose caller no longer waits. It says who
// holds the name, if that can be had quickly.
func (l *Leaser) gaveUp(ctx context.Context, name string, last error) error {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	s, err := l.Observe(look, name)
	switch {
	case err == nil && len(s.Holders) > 0:
		return fmt.Errorf("gave up waiting: %w: %w", held(s), context.Cause(ctx))
	case err != nil && passing(err):
		return fmt.Errorf("acquire %q: %w: %w (%v)", name, context.Cause(ctx), tenure.ErrUnavailable, err)
	case errors.Is(last, ctx.Err()):
		return fmt.Errorf("acquire %q: %w", name, last)
	}
	return fmt.Errorf("acquire %q: %w: %w", name, context.Cause(ctx), last)
}

func held(s tenure.State) tenure.HeldError {
	h := s.Holders[0]
	return tenure.HeldError{Name: s.Name, Holder: h.Holder, Until: h.Until}
}

// TryAcquire implements tenure.Leaser. It waits for answers no longer than five
// seconds.
func (l *Leaser) TryAcquire(outer context.Context, c tenure.Claim) (tenure.Lease, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	ctx, end, err := l.calls.Begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	bound, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	x, err := l.try(bound, c)
	switch {
	case err == nil:
		return x, nil
	case ctx.Err() != nil && outer.Err() == nil:
		return nil, tenure.ErrClosed
	case bound.Err() != nil && outer.Err() == nil:
		// Not wrapped: it is no deadline of the caller's that has passed.
		return nil, fmt.Errorf("acquire %q: %w within %v: check that a majority of the servers is up (%v)", c.Name, tenure.ErrUnavailable, callTimeout, err)
	case errors.As(err, new(tenure.HeldError)):
		return nil, err
	case passing(err):
		return nil, fmt.Errorf("acquire %q: %w: %w", c.Name, tenure.ErrUnavailable, err)
	}
	return nil, fmt.Errorf("acquire %q: %w", c.Name, err)
}

func (l *Leaser) try(ctx context.Context, c tenure.Claim) (*lease, error) {
	for {
		// A look comes first: a name that is held costs a read, not a lease.
		s, records, err := l.observe(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		if !fits(records, c.Slots) && len(s.Holders) > 0 {
			return nil, held(s)
		}
		x, ahead, err := l.join(ctx, c)
		if err != nil {
			return nil, err
		}
		if !x.fits(ahead) {
			// The look that came with joining may be too narrow.
			ahead, err = x.ahead(ctx)
		}
		if err == nil && x.fits(ahead) {
			if err = x.hold(); err == nil {
				return x, nil
			}
		}
		x.abandon()
		if err != nil && !errors.Is(err, errGone) {
			return nil, err
		}
		// Somebody else was quicker, and the next look will tell who.
	}
}
