package tenure

import (
	"context"
	"slices"
	"time"
)

// Awaiter is a Leaser that notices changes by itself. See Await.
type Awaiter interface {
	// Await returns the state of the name once its holders are others than
	// those in since.
	Await(ctx context.Context, since State) (State, error)
}

// Await waits until the holders of since.Name are others than those in since,
// and returns the new state. It looks once a second at a Leaser that is not an
// Awaiter.
func Await(ctx context.Context, l Leaser, since State) (State, error) {
	if a, ok := l.(Awaiter); ok {
		return a.Await(ctx, since)
	}
	for {
		s, err := l.Observe(ctx, since.Name)
		if err != nil || !SameHolders(s, since) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// SameHolders reports whether both states show the same tenures.
func SameHolders(a, b State) bool {
	return slices.EqualFunc(a.Holders, b.Holders, func(x, y Holding) bool { return x.Token == y.Token })
}
