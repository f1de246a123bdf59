package tenure

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// ErrNoLeader is returned by Election.Leader when nobody leads.
var ErrNoLeader = errors.New("no leader")

// Election is a lease by another name: its holder leads. Claim.Name is the
// election and Claim.Holder what the leader proclaims, for instance its address.
type Election struct {
	Leaser Leaser
	Claim  Claim
}

// Campaign waits until we lead. Lead while the lease is held; Release resigns.
func (e Election) Campaign(ctx context.Context) (Lease, error) {
	return e.Leaser.Acquire(ctx, e.Claim)
}

// Lead campaigns and runs fn whenever we lead, until fn returns while still
// leading or ctx is done. The context of fn ends with its leadership; after a
// loss Lead waits for fn to return and campaigns again. Only the loss of its own lease
// counts: when fn fails because it lost another one, Lead returns that error.
//
// Once ctx is done, Lead returns an error that wraps both ctx.Err() and the cause of ctx, to the leader
// and to a candidate alike, even if fn returned nil. It wraps besides what fn, the release or the
// campaign has to say. So it returns nil only if fn did, and nobody told it to stop.
func (e Election) Lead(ctx context.Context, fn func(ctx context.Context, lease Lease) error) error {
	for {
		lease, err := e.Campaign(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		err = run(ctx, lease, fn)
		if !errors.Is(lease.Err(), ErrLost) || ctx.Err() != nil {
			return stopped(ctx, err)
		}
	}
}

// stopped adds to an error that ctx is done, and why, if it is.
func stopped(ctx context.Context, err error) error {
	for _, why := range []error{ctx.Err(), context.Cause(ctx)} {
		switch {
		case why == nil || errors.Is(err, why):
		case err == nil:
			err = why
		default:
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return err
}

// Leader returns the present leader, or ErrNoLeader.
func (e Election) Leader(ctx context.Context) (Holding, error) {
	s, err := e.Leaser.Observe(ctx, e.Claim.Name)
	if err != nil {
		return Holding{}, err
	}
	if len(s.Holders) == 0 {
		return Holding{}, ErrNoLeader
	}
	return s.Holders[0], nil
}

// Observe yields each leader, the present one first, without contending. A leadership that
// is shorter than the observer takes to look may be missed; tokens never go back. It ends
// when ctx is done or with the first error.
func (e Election) Observe(ctx context.Context) iter.Seq2[Holding, error] {
	return func(yield func(Holding, error) bool) {
		s, err := e.Leaser.Observe(ctx, e.Claim.Name)
		for seen := uint64(0); ; s, err = Await(ctx, e.Leaser, s) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				yield(Holding{}, err)
				return
			}
			if len(s.Holders) > 0 && s.Holders[0].Token > seen {
				seen = s.Holders[0].Token
				if !yield(s.Holders[0], nil) {
					return
				}
			}
		}
	}
}
