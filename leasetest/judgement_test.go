package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// judgements are what a case looks at beside what TestSuiteHasTeeth sees it fail by: an engine that breaks just
// that, the case, and words of what it must say.
var judgements = []struct {
	what string
	make func() Fixture
	name string // of the case
	says string
}{
	{"a refusal is no HeldError", func() Fixture { return breakTries(noHeldError) }, "shared-beside-shared-only", "want a HeldError"},
	{"a refusal is returned as an outage", func() Fixture { return breakTries(outage) }, "shared-beside-shared-only", "want a HeldError"},
	{"Acquire fails every fifth time", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			if serial.Add(1)%5 == 0 {
				return nil, errors.New("busy")
			}
			return l.memoryLeaser.Acquire(ctx, c)
		})
	}, "exclusive-holders-never-overlap", "acquire under contention"},
	{"a release leaves the lease until it runs out, for contenders", func() Fixture { return breakLeases(leaveReleased) }, "exclusive-holders-never-overlap", "want each to have a turn"},
	{"Acquire admits once and never again", func() Fixture {
		var admitted atomic.Int64
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			if admitted.Add(1) > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return l.memoryLeaser.Acquire(ctx, c)
		})
	}, "exclusive-under-partitions", "want it to move on"},
	{"a release leaves the lease until it runs out, without a lock delay", func() Fixture { return breakLeases(leaveReleased) }, "lock-delay-after-a-loss", "a release is not delayed"},
	{"the lock delay is added to the deadline", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.deadline = func() time.Time { return x.memoryLease.Deadline().Add(x.entry.claim.LockDelay) }
		})
	}, "lock-delay-longer-than-the-ttl", "the lock delay is not the holder's"},
	{"Release returns nil after a loss", func() Fixture { return breakLeases(hideLoss) }, "lock-delay-longer-than-the-ttl", "Release of a lost lease returns <nil>"},
	{"bad claims are changed until they are valid", func() Fixture {
		return breakClaims(func(c *tenure.Claim) {
			c.Name, c.TTL, c.Slots = c.Name+fmt.Sprint(serial.Add(1)), c.TTL.Abs(), max(c.Slots, 0)
		})
	}, "errors-say-what-to-do", "a claim with a bad slots: no error"},
	{"the refusal of a bad claim is bare ErrClaim", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			if errors.Is(err, tenure.ErrClaim) {
				return nil, tenure.ErrClaim
			}
			return lease, err
		})
	}, "errors-say-what-to-do", "says nothing beside"},
	{"a HeldError names another holder", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			var held tenure.HeldError
			if errors.As(err, &held) {
				held.Holder = "somebody else"
				return nil, held
			}
			return lease, err
		})
	}, "try-tells-who-holds", `HeldError{`},
	{"the Until of a HeldError is an hour late", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			var held tenure.HeldError
			if errors.As(err, &held) {
				held.Until = held.Until.Add(time.Hour)
				return nil, held
			}
			return lease, err
		})
	}, "try-tells-who-holds", "HeldError.Until is"},
	{"a release leaves the lease until it runs out, for TryAcquire", func() Fixture { return breakLeases(leaveReleased) }, "try-tells-who-holds", "TryAcquire of a free name"},
	{"Observe returns another name", func() Fixture {
		return breakLooks(func(s *tenure.State) { s.Name += "x" })
	}, "observe-does-not-contend", "observed "},
	{"Observe makes up a holder of a free name", func() Fixture {
		return breakLooks(func(s *tenure.State) {
			if len(s.Holders) == 0 {
				s.Holders = []tenure.Holding{{Holder: "h", Token: 1, Slots: 1}}
			}
		})
	}, "observe-does-not-contend", "a name that nobody wanted yet"},
	{"Observe returns another token", func() Fixture {
		return breakLooks(func(s *tenure.State) {
			for i := range s.Holders {
				s.Holders[i].Token++
			}
		})
	}, "observe-does-not-contend", "want holder"},
	{"a release leaves the lease until it runs out, for Observe", func() Fixture { return breakLeases(leaveReleased) }, "observe-does-not-contend", "a released name"},
	{"a second Close fails", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			closed := false
			l.close = func() error {
				if closed {
					return errors.New("closed already")
				}
				closed = true
				return l.memoryLeaser.Close()
			}
		})
	}, "close-releases", "close again"},
	{"Close fails", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.close = func() error { l.memoryLeaser.Close(); return errors.New("failed") }
		})
	}, "close-releases", "close: failed"},
	{"a waiter is told something else than that the Leaser was closed", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			lease, err := l.memoryLeaser.Acquire(ctx, c)
			if errors.Is(err, tenure.ErrClosed) {
				return nil, errors.New("gone")
			}
			return lease, err
		})
	}, "close-releases", "an Acquire that waited when its Leaser closed returns gone"},
	{"Acquire tells nothing of Close", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			lease, err := l.memoryLeaser.Acquire(ctx, c)
			if errors.Is(err, tenure.ErrClosed) {
				return nil, errors.New("gone")
			}
			return lease, err
		})
	}, "close-releases", "Acquire after Close returns gone"},
	{"TryAcquire after Close returns no ErrClosed", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			if errors.Is(err, tenure.ErrClosed) {
				return nil, errors.New("gone")
			}
			return lease, err
		})
	}, "close-releases", "TryAcquire after Close returns gone"},
	{"the deadline is a TTL late", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.deadline = func() time.Time { return x.memoryLease.Deadline().Add(brokenTTL) }
		})
	}, "done-closes-at-the-local-deadline", "the deadline is"},
	{"the deadline moves without a renewal", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.deadline = func() time.Time { return time.Now().Add(brokenTTL / 2) }
		})
	}, "done-closes-at-the-local-deadline", "although nobody answered"},
	{"Token returns another token at each call", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.token = func() uint64 { return serial.Add(1) } })
	}, "tokens-only-grow", "the token of one tenure changed"},
	{"each Leaser counts its own tokens", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			var count uint64
			l.lease = func(x *brokenLease) {
				count++
				mine := count
				x.token = func() uint64 { return mine }
			}
		})
	}, "tokens-only-grow", "it must grow over another's release"},
	{"a Leaser that is opened later counts tokens from the beginning", func() Fixture {
		opened := 0
		return breakEach(func(_ *Memory, l *broken) {
			if opened++; opened > 2 {
				l.lease = func(x *brokenLease) { x.token = func() uint64 { return 1 } }
			}
		})
	}, "tokens-only-grow", "it must grow over closing and opening"},
	{"TryAcquire that is cut off returns bare ErrUnavailable", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			if err != nil && !errors.Is(err, tenure.ErrHeld) && !errors.Is(err, tenure.ErrClaim) {
				return nil, tenure.ErrUnavailable
			}
			return lease, err
		})
	}, "errors-say-what-to-do", "TryAcquire, cut off: the error"},
	{"an unconfirmed release returns ErrLost", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(ctx context.Context) error {
				if err := x.memoryLease.Release(ctx); err != nil {
					return fmt.Errorf("%w: %w", tenure.ErrLost, err)
				}
				return nil
			}
		})
	}, "unconfirmed-release-is-told", "although nobody else can hold"},
	{"Done stays open after an unconfirmed release", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.closes = make(chan struct{}) })
	}, "unconfirmed-release-is-told", "Done is open, want it closed"},
	{"Acquire that times out returns no HeldError", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			lease, err := l.memoryLeaser.Acquire(ctx, c)
			if errors.As(err, new(tenure.HeldError)) {
				return nil, ctx.Err()
			}
			return lease, err
		})
	}, "waiting-ends-with-the-context", "want a HeldError that names"},
	{"Acquire that times out returns no DeadlineExceeded", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			lease, err := l.memoryLeaser.Acquire(ctx, c)
			var held tenure.HeldError
			if errors.As(err, &held) {
				return nil, held
			}
			return lease, err
		})
	}, "waiting-ends-with-the-context", "when its time is over, want \"context deadline exceeded\""},
	{"Acquire that times out names another holder", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			lease, err := l.memoryLeaser.Acquire(ctx, c)
			var held tenure.HeldError
			if errors.As(err, &held) {
				held.Holder = "somebody else"
				return nil, fmt.Errorf("%w: %w", context.DeadlineExceeded, held)
			}
			return lease, err
		})
	}, "waiting-ends-with-the-context", "want a HeldError that names"},
	{"Acquire that is canceled returns no Canceled", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			lease, err := l.memoryLeaser.Acquire(ctx, c)
			if errors.Is(err, context.Canceled) {
				return nil, errors.New("gone")
			}
			return lease, err
		})
	}, "waiting-ends-with-the-context", "Acquire with a canceled context returns gone"},
	{"Acquire that times out cut off returns no DeadlineExceeded", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			lease, err := l.memoryLeaser.Acquire(ctx, c)
			if errors.Is(err, tenure.ErrUnavailable) {
				return nil, tenure.ErrUnavailable
			}
			return lease, err
		})
	}, "waiting-ends-with-the-context", "Acquire, cut off, returns " + tenure.ErrUnavailable.Error()},
	{"TryAcquire that is cut off returns no ErrUnavailable", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			if errors.Is(err, tenure.ErrUnavailable) {
				return nil, context.DeadlineExceeded
			}
			return lease, err
		})
	}, "waiting-ends-with-the-context", "TryAcquire, cut off, returns " + context.DeadlineExceeded.Error()},
	{"claims for one slot have two", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Slots = max(c.Slots, 2) })
	}, "exclusive-holders-never-overlap", "makes 2 holders where 1 are allowed"},
	{"shared tries are admitted beside a writer", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.try = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				if c.Slots == tenure.Shared {
					c.Name += fmt.Sprint(serial.Add(1))
				}
				return l.memoryLeaser.TryAcquire(ctx, c)
			}
		})
	}, "shared-beside-shared-only", "a reader beside a writer: TryAcquire got token"},
	{"tries are admitted during a tenure with a lock delay", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.try = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				c.Name += fmt.Sprint(serial.Add(1))
				return l.memoryLeaser.TryAcquire(ctx, c)
			}
		})
	}, "lock-delay-longer-than-the-ttl", "during the tenure: TryAcquire got token"},
	{"Check of a lost lease returns bare ErrLost", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.why = x.memoryLease.Err
			x.check = func() error {
				if x.memoryLease.Check() != nil {
					return tenure.ErrLost
				}
				return nil
			}
		})
	}, "errors-say-what-to-do", "Check of a lost lease: the error"},
	{"Err returns an error of its own", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.why = func() error {
				if x.memoryLease.Err() != nil {
					return errors.New("over")
				}
				return nil
			}
		})
	}, "release-frees-at-once", "Err returns over, want"},
	{"Check returns an error of its own", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.why = x.memoryLease.Err
			x.check = func() error {
				if x.memoryLease.Check() != nil {
					return errors.New("over")
				}
				return nil
			}
		})
	}, "release-frees-at-once", "Check returns over, want"},
	{"renewals do not move the deadline", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			first := x.memoryLease.Deadline()
			x.deadline = func() time.Time { return first }
		})
	}, "renewed-while-held", "want it renewed"},
	{"leases are lost after three quarters of a TTL", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			time.AfterFunc(brokenTTL*3/4, func() { loseAll(x.leaser) })
		})
	}, "deadline-counts-from-the-send", "with slow answers: Check returns"},
	{"a release leaves the lease until it runs out, alone", func() Fixture { return breakLeases(leaveReleased) }, "release-frees-at-once", "after the release: it waited for the deadline"},
	{"Close leaves leases held and renewed", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.lease = func(x *brokenLease) {
				time.AfterFunc(brokenTTL*3/4, func() { m.renew(x.entry) })
			}
			l.close = func() error {
				l.cancel()
				loseAll(l.memoryLeaser)
				return nil
			}
		})
	}, "close-releases", "after Close: it waited for the deadline"},
	{"Deadline does not count suspend", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.deadline = func() time.Time { return x.memoryLease.Deadline().Add(x.leaser.sleep()) }
		})
	}, "suspend-counts", "after a suspend of two TTLs the deadline is"},
	{"Observe of no name returns no ErrClaim", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.look = func(name string) error {
				if name == "" {
					return errors.New("no")
				}
				return nil
			}
		})
	}, "observe-does-not-contend", "Observe of no name returns no"},
	{"Observe returns other slots", func() Fixture {
		return breakLooks(func(s *tenure.State) {
			for i := range s.Holders {
				s.Holders[i].Slots++
			}
		})
	}, "observe-does-not-contend", "want holder"},
	{"Observe returns another holder", func() Fixture {
		return breakLooks(func(s *tenure.State) {
			for i := range s.Holders {
				s.Holders[i].Holder += "x"
			}
		})
	}, "observe-does-not-contend", "want holder"},
	{"the lock delay is added to the deadline, without a loss", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.deadline = func() time.Time { return x.memoryLease.Deadline().Add(x.entry.claim.LockDelay) }
		})
	}, "lock-delay-after-a-loss", "the lock delay is not the holder's"},
	{"leases with a long lock delay are lost", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			if c := x.entry.claim; c.LockDelay > c.TTL {
				time.AfterFunc(brokenTTL*3/4, func() { loseAll(x.leaser) })
			}
		})
	}, "lock-delay-longer-than-the-ttl", "lost without trouble, with a lock delay of 100 TTLs"},
	{"Err of a lease with a long lock delay returns an error", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.why = func() error { return errors.New("odd") } })
	}, "lock-delay-longer-than-the-ttl", "after two TTLs and a half, with a lock delay of 100 TTLs: Err returns"},
	{"a release leaves a lease with a long lock delay until it runs out", func() Fixture { return breakLeases(leaveReleased) },
		"lock-delay-longer-than-the-ttl", "after the release of a lease with a lock delay of 100 TTLs: TryAcquire returns"},
	{"Err of a lost lease returns bare ErrLost", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.why = func() error {
				if x.memoryLease.Err() != nil {
					return tenure.ErrLost
				}
				return nil
			}
		})
	}, "errors-say-what-to-do", "Err of a lost lease: the error"},
	{"the refusal of a bad claim is no ErrClaim", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			if errors.Is(err, tenure.ErrClaim) {
				return nil, errors.New("a bad TTL, slots, lock delay or holder")
			}
			return lease, err
		})
	}, "errors-say-what-to-do", "says nothing beside"},
	{"an error was put together wrongly", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			if err != nil {
				err = fmt.Errorf("%w%s", err, "%!d(string=x)")
			}
			return lease, err
		})
	}, "errors-say-what-to-do", "was put together wrongly"},
	{"a HeldError names another name", func() Fixture {
		return breakTries(func(lease tenure.Lease, err error) (tenure.Lease, error) {
			var held tenure.HeldError
			if errors.As(err, &held) {
				held.Name += "x"
				return nil, held
			}
			return lease, err
		})
	}, "try-tells-who-holds", `HeldError{`},
	{"Observe fails", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.look = func(string) error { return errors.New("odd") }
		})
	}, "observe-does-not-contend", "observe: odd"},
	{"Observe fails while others wait", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.look = func(string) error { return errors.New("odd") }
		})
	}, "release-frees-at-once", "observe: odd"},
	{"Observe makes up a claim that waits", func() Fixture {
		return breakLooks(func(s *tenure.State) { s.Waiting++ })
	}, "observe-does-not-contend", "a name that nobody wanted yet"},
	{"Await fails", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.await = func(s tenure.State, _ error) (tenure.State, error) { return s, errors.New("odd") }
		})
	}, "observe-does-not-contend", "await a change: odd"},
	{"Await returns the holders of before", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.await = func(s tenure.State, err error) (tenure.State, error) {
				s.Holders = []tenure.Holding{{Holder: "h", Token: 1, Slots: 1}}
				return s, err
			}
		})
	}, "observe-does-not-contend", "want no holder"},
	{"Acquire fails behind a holder", func() Fixture { return breakWaits(failsBehind) }, "release-frees-at-once", "acquire behind a holder: odd"},
	{"Acquire fails behind a reader", func() Fixture { return breakWaits(failsBehind) }, "arrivals-are-not-overtaken", "acquire behind a reader: odd"},
	{"Acquire fails in a line", func() Fixture { return breakWaits(failsBehind) }, "exclusive-waiters-in-order-of-arrival", "others: odd"},
	{"Acquire fails for some of many goroutines", func() Fixture {
		return breakWaits(func(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			if strings.HasSuffix(c.Name, "/7") {
				return nil, errors.New("odd")
			}
			return l.memoryLeaser.Acquire(ctx, c)
		})
	}, "many-goroutines-share-a-leaser", "/7\": odd"},
	{"a lease has another name", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.name = func() string { return "other" } })
	}, "many-goroutines-share-a-leaser", `lease of "other" by`},
	{"Check fails now and then", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.why = x.memoryLease.Err
			x.check = func() error {
				if err := x.memoryLease.Check(); err != nil || serial.Add(1)%100 > 0 {
					return err
				}
				return errors.New("odd")
			}
		})
	}, "many-goroutines-share-a-leaser", ": odd"},
	{"leases end at the very end of a case, and Done stays open, for contenders", func() Fixture { return breakLater(2*brokenTTL-50*time.Millisecond, endedUnseen) },
		"exclusive-holders-never-overlap", "is open 100ms after token"},
	{"leases end at the very end of a case, and Done stays open, for readers", func() Fixture { return breakLater(2*brokenTTL-50*time.Millisecond, endedUnseen) },
		"shared-beside-shared-only", "is open 100ms after token"},
	{"leases end soon, and Done stays open, for contenders", func() Fixture { return breakLeases(endedUnseen) }, "exclusive-holders-never-overlap", "is open 100ms after token"},
	{"leases end soon, and Done stays open, for readers", func() Fixture { return breakLeases(endedUnseen) }, "shared-beside-shared-only", "is open 100ms after token"},
	{"leases end soon, and Done stays open, for some of several", func() Fixture { return breakLeases(endedUnseen) }, "slots-are-never-exceeded", "is open 100ms after token"},
	{"leases have another holder's name", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Holder += "x" })
	}, "many-goroutines-share-a-leaser", "want \""},
}

// leaveReleased leaves an entry with the store until it runs out.
func leaveReleased(x *brokenLease) {
	x.release = func(context.Context) error {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.end(fmt.Errorf("%w by its holder", tenure.ErrReleased))
		return nil
	}
}

// endedUnseen has a lease say after a moment that it has ended, while its Done stays open. The store has no more of it.
func endedUnseen(x *brokenLease) {
	x.closes = make(chan struct{})
	over := errors.New("over")
	began := time.Now()
	x.check = func() error {
		if time.Since(began) < time.Millisecond {
			return nil
		}
		return fmt.Errorf("%w: %w", tenure.ErrLost, over)
	}
	time.AfterFunc(time.Millisecond, func() { x.leaser.store.remove(x.entry) })
}

// breakLater makes a fixture whose leases are broken by f from then on.
func breakLater(from time.Duration, f func(x *brokenLease)) Fixture {
	began := time.Now()
	return breakLeases(func(x *brokenLease) {
		if time.Since(began) >= from {
			f(x)
		}
	})
}

// failsBehind is an Acquire that fails where somebody holds the name, once it waits.
func failsBehind(l *broken, ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	if s, err := l.memoryLeaser.Observe(ctx, c.Name); err == nil && len(s.Holders) == 0 {
		return l.memoryLeaser.Acquire(ctx, c)
	}
	ctx, cancel := context.WithTimeout(ctx, brokenTTL/2)
	defer cancel()
	if lease, err := l.memoryLeaser.Acquire(ctx, c); err == nil {
		_ = lease.Release(context.WithoutCancel(ctx))
	}
	return nil, errors.New("odd")
}

func hideLoss(x *brokenLease) {
	x.release = func(ctx context.Context) error { x.memoryLease.Release(ctx); return nil }
}

func noHeldError(lease tenure.Lease, err error) (tenure.Lease, error) {
	if errors.As(err, new(tenure.HeldError)) {
		return nil, errors.New("no")
	}
	return lease, err
}

func outage(lease tenure.Lease, err error) (tenure.Lease, error) {
	if errors.As(err, new(tenure.HeldError)) {
		return nil, fmt.Errorf("%w: no", tenure.ErrUnavailable)
	}
	return lease, err
}

// breakWaits makes a fixture whose Leasers have f for their Acquire.
func breakWaits(f func(*broken, context.Context, tenure.Claim) (tenure.Lease, error)) Fixture {
	return breakEach(func(_ *Memory, l *broken) {
		l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) { return f(l, ctx, c) }
	})
}

// breakTries makes one whose Leasers return from TryAcquire what f makes of it.
func breakTries(f func(tenure.Lease, error) (tenure.Lease, error)) Fixture {
	return breakEach(func(_ *Memory, l *broken) {
		l.try = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			return f(l.memoryLeaser.TryAcquire(ctx, c))
		}
	})
}

// breakLooks makes one that shows what f makes of a state.
func breakLooks(f func(*tenure.State)) Fixture {
	return breakEach(func(_ *Memory, l *broken) {
		l.observe = func(s tenure.State) tenure.State { f(&s); return s }
	})
}

// TestEachJudgement has the cases say what is wrong with engines that break one thing each.
func TestEachJudgement(t *testing.T) {
	for _, j := range judgements {
		t.Run(j.what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				found := record(t, j.name, j.make()).found()
				if !slices.ContainsFunc(found, func(said string) bool { return strings.Contains(said, j.says) }) {
					t.Errorf("%q does not say %q; it says %q", j.name, j.says, found)
				}
				time.Sleep(time.Minute) // what a misbehavior waits for
			})
		})
	}
}
