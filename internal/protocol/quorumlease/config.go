package quorumlease

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config is what a member's part in read leases is made from.
type Config struct {
	Self machine.NodeID
	// Boot differs in each life of the member, and a later life's is greater.
	Boot uint64
	// TTL is how long a promise lasts, as its grantor grants it.
	TTL time.Duration
	// EarlierTTL is the longest TTL of the member's earlier lives: what it may have
	// promised before it forgot. Zero in its first life.
	EarlierTTL time.Duration
}

// Bounds of TTL. Below the least, renewals would be most of what the members say;
// above the greatest, a dead holder would stop writes for longer than any client
// waits.
const (
	MinTTL = 20 * time.Millisecond
	MaxTTL = 10 * time.Second
)

// ErrTTL tells that a TTL is out of bounds.
var ErrTTL = errors.New("quorumlease: the length of a read lease is out of bounds")

// Check reports what is wrong with the configuration.
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

// Forgotten is until when a member that starts now may be bound by promises of its
// earlier lives.
func (c Config) Forgotten(now machine.Mono) machine.Mono {
	if c.EarlierTTL == 0 {
		return now
	}
	return now.Add(bound(c.EarlierTTL))
}

// drift is the share by which the rates of two clocks may differ, each way, and
// minMargin the least that a grantor adds.
const (
	drift     = 100 // one in a hundred
	minMargin = 10 * time.Millisecond
)

// believed is how long a holder believes in a promise, from when it sent its
// request, by its clock (R10).
func believed(ttl time.Duration) time.Duration { return ttl - ttl/drift }

// bound is how long a grantor is bound by a promise, from when it had the request,
// by its clock (R10).
func bound(ttl time.Duration) time.Duration { return ttl + max(ttl/drift, minMargin) }

// Bound is how long a promise may bind its grantor that lasts for this long, by the
// grantor's clock.
func Bound(ttl time.Duration) time.Duration { return bound(ttl) }

// Believed is how long a holder may believe in a promise that lasts for this long, by its
// own clock.
func Believed(ttl time.Duration) time.Duration { return believed(ttl) }

// renewEvery is when a holder asks again: three requests in a row may be lost.
func renewEvery(ttl time.Duration) time.Duration { return ttl / 4 }
