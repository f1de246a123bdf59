package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
)

// Pool is a set of numbers, each of which one client may have at a time.
type Pool struct {
	Name string
	Size int
	TTL  time.Duration
}

// Take leases a free number, the preferred one if it is free, and waits while there
// is none.
func (p Pool) Take(ctx context.Context, l tenure.Leaser, prefer int) (int, tenure.Lease, error) {
	if p.Size < 1 || prefer < 0 || prefer >= p.Size {
		return 0, nil, fmt.Errorf("number %d of %d: want one from 0 to %d", prefer, p.Size, p.Size-1)
	}
	for {
		soon := time.Now().Add(time.Second) // somebody may release any time
		for i := range p.Size {
			n := (prefer + i) % p.Size
			lease, err := l.TryAcquire(ctx, tenure.Claim{Name: fmt.Sprintf("%s/%d", p.Name, n), TTL: p.TTL})
			if err == nil {
				return n, lease, nil
			}
			var held tenure.HeldError
			if !errors.As(err, &held) {
				return 0, nil, fmt.Errorf("take a number of %s: %w", p.Name, err)
			}
			if !held.Until.IsZero() && held.Until.Before(soon) {
				soon = held.Until
			}
		}
		select {
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("all %d of %s are taken: %w", p.Size, p.Name, ctx.Err())
		case <-time.After(max(time.Until(soon), 50*time.Millisecond)):
		}
	}
}
