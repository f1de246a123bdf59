package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/machine"
)

// errUnknownLease is what a renewal returns when the server does not know the
// lease: nothing will bring it back.
var errUnknownLease = errors.New("the server does not know the lease any more: it expired there or was revoked")

var errNoAnswer = errors.New("no answer from the server")

// keeper keeps one server lease alive, and knows until when it lasts at least.
type keeper struct {
	clock clock.Clock
	delay time.Duration // the end of the lease that is not for us
	// renew sends one renewal and returns the TTL that it was granted from no
	// earlier than when renew was called.
	renew func(context.Context) (time.Duration, error)

	ctx  context.Context // ends with the tenure
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	deadline machine.Mono
	err      error // of the tenure's end
}

// margin is by how much the holder's deadline is earlier than the server's, for
// clocks whose rates differ. The lock delay needs none: the server alone measures it.
func margin(held time.Duration) time.Duration { return held / 100 }

// newKeeper starts to renew a lease that was granted for ttl by a request sent at
// sent.
func newKeeper(c clock.Clock, sent machine.Mono, ttl, delay time.Duration, renew func(context.Context) (time.Duration, error)) *keeper {
	k := &keeper{clock: c, delay: delay, renew: renew, done: make(chan struct{})}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.extend(sent, ttl)
	go k.run(sent, ttl-delay)
	return k
}

type renewal struct {
	sent machine.Mono
	ttl  time.Duration
	err  error
}

// run renews. held is the holder's part of what was granted, by which it has to
// hurry: what is left to others may be far longer.
func (k *keeper) run(sent machine.Mono, held time.Duration) {
	answers := make(chan renewal)
	next := sent.Add(held / 3)
	why := errNoAnswer
	for {
		late, due := k.clock.Alarm(k.until()), k.clock.Alarm(next)
		select {
		case <-k.ctx.Done():
		case <-late.C:
			// Where alarms ring late, an answer may be waiting. It is late, too.
			k.lose(fmt.Errorf("not renewed in time: %w", why))
		case <-due.C:
			sent = k.clock.Now()
			next = sent.Add(held / 9)
			go k.try(sent, held, answers)
		case a := <-answers:
			switch {
			case a.err == nil && k.extend(a.sent, a.ttl):
				held = a.ttl - k.delay
				next = max(a.sent.Add(held/3), sent.Add(held/9))
				why = errNoAnswer
			case errors.Is(a.err, errUnknownLease):
				k.lose(a.err)
			case a.err != nil:
				why = a.err
			}
		}
		late.Stop()
		due.Stop()
		if k.ctx.Err() != nil {
			return
		}
	}
}

// try sends one renewal. It waits no longer than the answer could be worth.
func (k *keeper) try(sent machine.Mono, worth time.Duration, answers chan<- renewal) {
	ctx, cancel := context.WithTimeout(k.ctx, worth)
	defer cancel()
	ttl, err := k.renew(ctx)
	select {
	case answers <- renewal{sent, ttl, err}:
	case <-k.ctx.Done():
	}
}

// extend moves the deadline, unless it has passed.
func (k *keeper) extend(sent machine.Mono, ttl time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil || k.deadline != 0 && k.clock.Now() >= k.deadline {
		return false
	}
	held := ttl - k.delay
	k.deadline = max(k.deadline, sent.Add(held-margin(held)))
	return held > 0
}

func (k *keeper) until() machine.Mono {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deadline
}

// check reads the clock.
func (k *keeper) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil && k.clock.Now() >= k.deadline {
		k.endLocked(fmt.Errorf("%w: its deadline passed without a renewal", tenure.ErrLost))
	}
	return k.err
}

func (k *keeper) lose(why error) { k.end(fmt.Errorf("%w: %w", tenure.ErrLost, why)) }

// end ends the tenure for the reason given, unless it had ended, and returns why
// it did.
func (k *keeper) end(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil && k.clock.Now() >= k.deadline && !errors.Is(err, tenure.ErrLost) {
		err = fmt.Errorf("%w: its deadline passed without a renewal", tenure.ErrLost)
	}
	k.endLocked(err)
	return k.err
}

func (k *keeper) endLocked(err error) {
	if k.err == nil {
		k.err = err
		close(k.done)
		k.stop()
	}
}
