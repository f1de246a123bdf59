package quorumlease

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config configures a member's Grantor, Holder and Stalls.
type Config struct {
	Self machine.NodeID
	// Boot differs in each life of the member, and a later life's is greater.
	Boot uint64
	// TTL is how long a promise lasts, as its grantor grants it.
	TTL time.Duration
	// EarlierTTL is the longest TTL of the member's earlier lives, whose promises it has
	// forgotten. It is zero in the first life.
	EarlierTTL time.Duration
}

// Bounds of TTL. Below the least, renewals would be most of what the members say;
// above the greatest, a dead holder would stop writes for longer than any client
// waits.
const (
	MinTTL = 20 * time.Millisecond
	MaxTTL = 10 * time.Second
)

// ErrTTL reports a TTL out of bounds.
var ErrTTL = errors.New("quorumlease: the length of a read lease is out of bounds")

// Check returns an error if the configuration is invalid.
func (c Config) Check() error {
	switch {
	case c.Self == 0:
		return errors.New("quorumlease: Self is zero")
	case c.Boot == 0:
		return errors.New("quorumlease: Boot is zero")
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return fmt.Errorf("%w: %v is not from %v to %v", ErrTTL, c.TTL, MinTTL, MaxTTL)
	}
	return nil
}

// Forgotten returns the time until which promises of earlier lives may bind a member that
// starts now.
func (c Config) Forgotten(now machine.Mono) machine.Mono {
	if c.EarlierTTL == 0 {
		return now
	}
	return now.Add(bound(c.EarlierTTL))
}

// drift bounds by which share the rates of two clocks differ, each way. minMargin is the
// least time that a grantor adds to a promise.
const (
	drift     = 100 // one in a hundred
	minMargin = 10 * time.Millisecond
)

// believed returns for how long a holder counts a promise, from the sending of its request,
// by its own clock (R10).
func believed(ttl time.Duration) time.Duration { return ttl - ttl/drift }

// bound returns for how long a promise binds its grantor, from the arrival of the request,
// by the grantor's clock (R10).
func bound(ttl time.Duration) time.Duration { return ttl + max(ttl/drift, minMargin) }

// Bound returns for how long a promise of this length may bind its grantor, by the
// grantor's clock.
func Bound(ttl time.Duration) time.Duration { return bound(ttl) }

// Believed returns how long a holder may believe in a promise of some length, by its own clock.
func Believed(ttl time.Duration) time.Duration { return believed(ttl) }

// renewEvery returns the time between two requests of a holder. Three in a row may be lost.
func renewEvery(ttl time.Duration) time.Duration { return ttl / 4 }
