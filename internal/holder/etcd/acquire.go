package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

// Errors after which another attempt makes sense.
var (
	errGone   = errors.New("our place in the queue is gone: the lease expired or somebody removed the key")
	errBeaten = errors.New("another claim came first")
)

// Acquire implements tenure.Leaser.
func (l *Leaser) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, l.calls, engine{l}, c, false)
}

// TryAcquire implements tenure.Leaser. It waits for answers no longer than five
// seconds.
func (l *Leaser) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, l.calls, engine{l}, c, true)
}

// engine is a Leaser as a holder.Engine.
type engine struct{ *Leaser }

// Complete implements holder.Engine.
func (engine) Complete(c tenure.Claim) (tenure.Claim, error) {
	c, err := c.Complete()
	if err == nil && c.TTL%time.Second != 0 {
		whole := c.TTL.Truncate(time.Second)
		err = fmt.Errorf("%w: a TTL of %v is not in whole seconds, which the server counts: ask for %v or %v", tenure.ErrClaim, c.TTL, max(whole, time.Second), whole+time.Second)
	}
	c.LockDelay = time.Duration(wholeSeconds(c.LockDelay)) * time.Second
	return c, err
}

// Patience implements holder.Engine.
func (engine) Patience() time.Duration { return callTimeout }

// Contend implements holder.Engine. A claim joins the queue once and stays in it until it is
// admitted; a try leaves the queue if it is not admitted at once.
func (e engine) Contend(in holder.Call, c tenure.Claim) (holder.Claim, error) {
	ctx, end := in.Context()
	defer end()
	if in.Try {
		// A look comes first: a name that is held costs a read, not a lease.
		if err := e.look(ctx, c); err != nil {
			return nil, err
		}
	}
	x, ahead, err := e.join(ctx, c)
	if err != nil {
		return nil, err
	}
	switch {
	case x.fits(ahead):
	case in.Try:
		err = x.lookAgain(ctx)
	default:
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

// look returns a HeldError if a claim would have to wait.
func (l *Leaser) look(ctx context.Context, c tenure.Claim) error {
	s, records, err := l.observe(ctx, c.Name)
	if err == nil && !fits(records, c.Slots) && len(s.Holders) > 0 {
		err = held(s)
	}
	return err
}

// lookAgain reports by its error whether a try is admitted. The look that came with joining may have
// been too narrow.
func (x *lease) lookAgain(ctx context.Context) error {
	ahead, err := x.ahead(ctx)
	if err == nil && !x.fits(ahead) {
		err = errBeaten
	}
	return err
}

// Again implements holder.Engine. A try that was beaten looks again at once, and learns which claim
// came first.
func (engine) Again(in holder.Call, err error) (time.Duration, bool) {
	if in.Try {
		return 0, errors.Is(err, errGone) || errors.Is(err, errBeaten)
	}
	return aMoment(), errors.Is(err, errGone) || passing(err)
}

// Explain implements holder.Engine.
func (e engine) Explain(in holder.Call, c tenure.Claim, err error) error {
	switch cut := in.Cut(); {
	case errors.Is(cut, holder.ErrPatience):
		// Not wrapped: it is no deadline of the caller's that has passed.
		return fmt.Errorf("acquire %q: %w within %v: check that a majority of the servers is up (%v)", c.Name, tenure.ErrUnavailable, callTimeout, err)
	case cut != nil && !in.Try:
		ctx, end := in.Context()
		defer end()
		return e.gaveUp(ctx, c.Name, err)
	case passing(err):
		err = fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
	}
	return holder.Unexplained(c.Name, err)
}

// gaveUp is the error of an Acquire whose caller no longer waits. It says which holder has the name,
// if that can be learned quickly.
func (l *Leaser) gaveUp(ctx context.Context, name string, last error) error {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	s, err := l.Observe(look, name)
	switch {
	case err == nil && len(s.Holders) > 0:
		return fmt.Errorf("gave up waiting: %w: %w", held(s), context.Cause(ctx))
	case err != nil && passing(err):
		return fmt.Errorf("acquire %q: %w: %w (%v)", name, context.Cause(ctx), tenure.ErrUnavailable, err)
	case errors.Is(last, ctx.Err()) || errors.Is(last, context.Cause(ctx)):
		return fmt.Errorf("acquire %q: %w", name, last)
	}
	return fmt.Errorf("acquire %q: %w: %w", name, context.Cause(ctx), last)
}

func held(s tenure.State) tenure.HeldError {
	h := s.Holders[0]
	return tenure.HeldError{Name: s.Name, Holder: h.Holder, Until: h.Until}
}
