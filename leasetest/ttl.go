package leasetest

import (
	"errors"
	"strings"
	"time"

	"github.com/tenure-lease/tenure"
)

// ttlKept wants each TTL kept as asked for, or refused by an error that speaks of it: never another one
// in its place.
func ttlKept(b *bench) {
	l := b.leaser()
	for _, ttl := range []time.Duration{b.TTL, b.TTL + 1, b.TTL * 3 / 2, 3 * b.TTL, b.TTL / 2, b.TTL / 100, time.Hour + 10*b.TTL} {
		c := b.claim()
		c.TTL = ttl
		asked := time.Now()
		lease, err := l.Acquire(b.ctx, c)
		switch {
		case err == nil:
			left, took := time.Until(lease.Deadline()), time.Since(asked)
			if left > ttl || left < ttl/2-took {
				b.Errorf("a TTL of %v: the deadline is %v away, %v after it was asked for; want the TTL kept or refused", ttl, left, took)
			}
			// A short one may be lost already.
			if err := lease.Release(b.ctx); err != nil && !errors.Is(err, tenure.ErrLost) {
				b.Errorf("a TTL of %v: its release: %v", ttl, err)
			}
		case ttl == b.TTL:
			b.Errorf("a TTL of %v, which is said to be granted: %v", ttl, err)
		case !errors.Is(err, tenure.ErrClaim) && !errors.Is(err, tenure.ErrTTLTooShort) || !strings.Contains(err.Error(), "TTL"):
			b.Errorf("a TTL of %v: the error %q; want %q or %q, and a word of the TTL", ttl, err, tenure.ErrClaim, tenure.ErrTTLTooShort)
		}
	}
	c := b.claim()
	c.TTL = 0
	lease := b.acquire(l, c)
	b.held(lease, "with no TTL asked for")
	b.release(lease)
}
