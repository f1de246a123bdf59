package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// errUnknownLease is the error of a renewal when the server does not know the lease: nothing will
// bring it back.
var errUnknownLease = errors.New("the server does not know the lease any more: it expired there or was revoked")

var errNoAnswer = errors.New("no answer from the server")

// keeper keeps one server lease alive.
type keeper struct {
	holder.Lease
	clock clock.Clock
	ctx   context.Context // ends with the tenure
	delay time.Duration   // the end of the lease that is not for us
	// renew sends one renewal and returns the TTL that it was granted from no
	// earlier than when renew was called.
	renew func(context.Context) (time.Duration, error)
}

// margin is by how much the holder's deadline is earlier than the server's, for
// clocks whose rates differ. The lock delay needs none: the server alone measures it.
func margin(held time.Duration) time.Duration { return held / 100 }

// newKeeper starts to renew a lease that was granted for ttl by a request sent at
// sent.
func newKeeper(c *holder.Clocks, claim tenure.Claim, sent machine.Mono, ttl time.Duration, renew func(context.Context) (time.Duration, error)) *keeper {
	held := ttl - claim.LockDelay
	ctx, stop := context.WithCancel(context.Background())
	k := &keeper{Lease: holder.Make(c, claim.Name, claim.Holder, stop), clock: c.Mono, ctx: ctx, delay: claim.LockDelay, renew: renew}
	k.Begin(0, sent.Add(held-margin(held)), 0)
	k.Trouble(errNoAnswer)
	go k.run(sent, held)
	go k.Watch()
	return k
}

type renewal struct {
	sent machine.Mono
	ttl  time.Duration
	err  error
}

// run renews. held is the holder's part of the granted time. Renewals go by it, for the lock delay
// may be far longer.
func (k *keeper) run(sent machine.Mono, held time.Duration) {
	answers := make(chan renewal)
	next := sent.Add(held / 3)
	for {
		due := k.clock.Alarm(next)
		select {
		case <-k.Done():
			due.Stop()
			return
		case <-due.C:
			sent = k.clock.Now()
			next = sent.Add(held / 9)
			go k.try(sent, held, answers)
		case a := <-answers:
			switch {
			case a.err == nil && k.extend(a.sent, a.ttl):
				held = a.ttl - k.delay
				next = max(a.sent.Add(held/3), sent.Add(held/9))
			case errors.Is(a.err, errUnknownLease):
				k.Lose(a.err)
			case a.err != nil:
				k.Trouble(a.err)
			}
		}
		due.Stop()
	}
}

// try sends one renewal. It waits no longer than the answer could be worth.
func (k *keeper) try(sent machine.Mono, worth time.Duration, answers chan<- renewal) {
	ctx, cancel := context.WithTimeout(k.ctx, worth)
	defer cancel()
	ttl, err := k.renew(ctx)
	select {
	case answers <- renewal{sent, ttl, err}:
	case <-k.Done():
	}
}

// extend moves the deadline, unless it has passed.
func (k *keeper) extend(sent machine.Mono, ttl time.Duration) bool {
	held := ttl - k.delay
	if !k.Extend(sent.Add(held-margin(held)), 0) {
		return false
	}
	k.Trouble(errNoAnswer)
	return held > 0
}
