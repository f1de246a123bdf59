package leasetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// impatient has the suite look a few times only whether something refers to a call: for engines of
// which that is known.
func impatient(t *testing.T) {
	before := forgetful
	forgetful = 3
	t.Cleanup(func() { forgetful = before })
}

// remembers is an engine that keeps the contexts of one kind of call, or fails in it.
type remembers struct {
	*memoryLeaser
	which string
	err   error
	kept  []context.Context
}

func (l *remembers) keep(ctx context.Context, call string, err error) error {
	if call != l.which {
		return err
	}
	l.kept = append(l.kept, ctx)
	return errors.Join(l.err, err)
}

func either(err error, fails, succeeds string) string {
	if err != nil {
		return fails
	}
	return succeeds
}

func (l *remembers) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	lease, err := l.memoryLeaser.TryAcquire(ctx, c)
	return lease, l.keep(ctx, either(err, "TryAcquire of a name that is held", "TryAcquire and Release of a free name"), err)
}

func (l *remembers) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	lease, err := l.memoryLeaser.Acquire(ctx, c)
	return lease, l.keep(ctx, either(err, "Acquire that gave up", "Acquire and Release of a free name"), err)
}

func (l *remembers) Observe(ctx context.Context, name string) (tenure.State, error) {
	s, err := l.memoryLeaser.Observe(ctx, name)
	return s, l.keep(ctx, "Observe", err)
}

func (l *remembers) List(ctx context.Context, _ string) ([]string, error) {
	return nil, l.keep(ctx, "List", nil)
}

func (l *remembers) Await(ctx context.Context, _ tenure.State) (tenure.State, error) {
	<-ctx.Done()
	return tenure.State{}, l.keep(ctx, "Await that gave up", ctx.Err())
}

// Whichever call an engine remembers, the suite says so, and it says which call fails.
func TestRememberedCallsAreSeen(t *testing.T) {
	impatient(t)
	odd := errors.New("odd")
	for _, call := range []string{
		"TryAcquire and Release of a free name", "Acquire and Release of a free name", "Observe", "List", "Await that gave up",
		"TryAcquire of a name that is held", "Acquire that gave up",
	} {
		for says, fails := range map[string]error{call + ": the call has ended, and something refers to its context": nil, call + ": odd": odd} {
			if fails != nil && slices.Contains([]string{"Await that gave up", "TryAcquire of a name that is held", "Acquire that gave up"}, call) {
				continue // it fails anyway
			}
			bubble.Test(t, func(t *testing.T) {
				m := NewMemory()
				first := true
				found := record(t, "ended-calls-are-forgotten", Fixture{TTL: brokenTTL, Open: func() (tenure.Leaser, error) {
					l := &remembers{memoryLeaser: m.Open().(*memoryLeaser)}
					if first = !first; first { // the other one holds what is in the way
						l.which, l.err = call, fails
					}
					return l, nil
				}}).found()
				if !slices.Contains(found, says) {
					t.Errorf("an engine remembers %s: the suite says %q, want %q", call, found, says)
				}
				time.Sleep(time.Minute) // what was closed ends its timers
			})
		}
	}
}
