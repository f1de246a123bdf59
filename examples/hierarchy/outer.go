package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Outer is one process's part in the outer lease.
type Outer struct {
	Epochs   Epochs
	Election tenure.Election // the process that should own; it may be wrong
	Me       Owner
	Span     time.Duration // S: how long a look is worth
	Drift    int           // ρ: parts per million by which clocks differ in rate from true time
	Table    *Table        // the owner's work

	epoch uint64       // that is ours, or was
	begin machine.Mono // when it begins to be of use
}

// Run owns whenever it can, until ctx is done.
func (o *Outer) Run(ctx context.Context) error {
	return o.Election.Lead(ctx, func(ctx context.Context, _ tenure.Lease) error {
		for ctx.Err() == nil {
			err := o.own(ctx)
			if err == nil {
				err = o.hold(ctx)
			}
			switch {
			case errors.Is(err, errDeposed):
				// Two processes believe that they lead. Leave the other some time.
				pause(ctx, 2*o.Span+rand.N(2*o.Span))
			case errors.Is(err, tenure.ErrUnavailable):
				pause(ctx, o.Span/3)
			case err != nil && ctx.Err() == nil:
				return err
			}
		}
		return ctx.Err()
	})
}

// own returns when the newest epoch is ours.
func (o *Outer) own(ctx context.Context) error {
	newest, owner, err := o.Epochs.Newest(ctx)
	if err != nil {
		return err
	}
	for owner != o.Me {
		// Nobody else is proposed with our address and in our name: if it is us, then since now.
		newest++
		if owner, err = o.Epochs.Propose(ctx, newest, o.Me); err != nil {
			return err
		}
		if owner == o.Me {
			o.epoch, o.begin = newest, clock.Now().Add(Wait(o.Span, o.Drift))
		}
	}
	if o.epoch != newest {
		// It was decided when we had given up waiting for the answer. We cannot know when,
		// but not later than now.
		o.epoch, o.begin = newest, clock.Now().Add(Wait(o.Span, o.Drift))
	}
	return nil
}

// Wait returns the time after a decision by which every earlier owner knows of it or has
// ended. It is S and a margin for two clocks, one too slow and the other too fast.
func Wait(span time.Duration, drift int) time.Duration {
	rho := float64(drift) / 1e6
	return time.Duration(float64(span)*(1+rho)/(1-rho)) + 1
}

var errDeposed = errors.New("the next epoch has begun")

// hold keeps the table open while nobody else has the next epoch.
func (o *Outer) hold(ctx context.Context) error {
	for {
		looked := clock.Now()
		_, deposed, err := o.Epochs.Owner(ctx, o.epoch+1)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case deposed:
			o.Table.Shut()
			return errDeposed
		case err != nil && !errors.Is(err, tenure.ErrUnavailable):
			return err
		case err == nil && clock.Now() >= o.begin:
			o.Table.Open(o.epoch, looked.Add(o.Span))
		}
		pause(ctx, o.Span/3)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
