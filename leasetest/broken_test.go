package leasetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

var serial atomic.Uint64

// misbehaviors are engines that break a promise, and the case that must say so.
var misbehaviors = []struct {
	what string
	make func() Fixture
	want string // the name of a case
}{
	{"each claim is for a name of its own", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Name = fmt.Sprintf("%s%d", c.Name, serial.Add(1)) })
	}, "exclusive-holders-never-overlap"},
	{"exclusive claims are made as shared ones", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Slots = tenure.Shared })
	}, "shared-beside-shared-only"},
	{"claims with several slots get one more", func() Fixture {
		return breakClaims(func(c *tenure.Claim) {
			if c.Slots > 1 {
				c.Slots++
			}
		})
	}, "slots-are-never-exceeded"},
	{"all claims are for one slot", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Slots = 1 })
	}, "shared-beside-shared-only"},
	{"shared tries pass those that wait", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.try = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				if c.Slots == tenure.Shared {
					c.Name = fmt.Sprintf("%s%d", c.Name, serial.Add(1))
				}
				return l.memoryLeaser.TryAcquire(ctx, c)
			}
		})
	}, "arrivals-are-not-overtaken"},
	{"a name below another is taken for that one", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Name = strings.TrimSuffix(c.Name, "/sub") })
	}, "names-are-independent"},
	{"each Leaser counts tokens from one", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			var count uint64
			l.lease = func(x *brokenLease) { count++; n := count; x.token = func() uint64 { return n } }
		})
	}, "tokens-only-grow"},
	{"all tenures have the same token", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.token = func() uint64 { return 7 } })
	}, "exclusive-holders-never-overlap"},
	{"a TTL is longer than asked for", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.TTL = max(c.TTL, brokenTTL) })
	}, "ttl-is-kept-or-refused"},
	{"a TTL is shorter than asked for", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.TTL = min(c.TTL, brokenTTL) })
	}, "ttl-is-kept-or-refused"},
	{"a TTL is refused without a reason", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				if c.TTL > brokenTTL {
					return nil, tenure.ErrClaim
				}
				return l.memoryLeaser.Acquire(ctx, c)
			}
		})
	}, "ttl-is-kept-or-refused"},
	{"the TTL that is said to be granted is refused", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				if c.TTL == brokenTTL {
					return nil, fmt.Errorf("%w: a TTL of %v", tenure.ErrClaim, c.TTL)
				}
				return l.memoryLeaser.Acquire(ctx, c)
			}
		})
	}, "ttl-is-kept-or-refused"},
	{"a restart resets the tokens", func() Fixture {
		m := NewMemory()
		f := m.Fixture(brokenTTL)
		f.Restart = func() error { m.token = 0; return nil }
		return f
	}, "tokens-grow-over-a-restart"},
	{"a crash resets the tokens, those in use too", func() Fixture {
		m := NewMemory()
		f := m.Fixture(brokenTTL)
		f.Crash = func() error { m.token = 0; return nil }
		return f
	}, "tokens-grow-over-a-crash-while-held"},
	{"a crash gives the last token out again", func() Fixture {
		m := NewMemory()
		f := m.Fixture(brokenTTL)
		f.Crash = func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.token--
			return nil
		}
		return f
	}, "tokens-grow-over-a-crash-while-held"},
	{"the latest waiter is admitted first", func() Fixture { return lastFirst() }, "exclusive-waiters-in-order-of-arrival"},
	{"an unconfirmed release returns nil", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(ctx context.Context) error {
				if err := x.memoryLease.Release(ctx); errors.Is(err, tenure.ErrLost) {
					return err
				}
				return nil
			}
		})
	}, "unconfirmed-release-is-told"},
	{"an unconfirmed release leaves the lease held", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(ctx context.Context) error {
				if x.leaser.line.call(ctx, func() {}) != nil {
					return errors.New("not confirmed")
				}
				return x.memoryLease.Release(ctx)
			}
		})
	}, "unconfirmed-release-is-told"},
	{"deadlines do not count suspend", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			began, deadline := time.Now(), x.memoryLease.Deadline()
			x.check = func() error {
				if time.Since(began) < deadline.Sub(began) {
					return nil
				}
				return x.memoryLease.Check()
			}
		})
	}, "suspend-counts"},
	{"a refusal is no HeldError", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.try = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				lease, err := l.memoryLeaser.TryAcquire(ctx, c)
				if errors.As(err, new(tenure.HeldError)) {
					return nil, errors.New("no")
				}
				return lease, err
			}
		})
	}, "errors-say-what-to-do"},
	{"a loss is wrapped in ErrLost twice", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.check = func() error {
				if err := x.memoryLease.Check(); err != nil {
					return fmt.Errorf("%w: %w", tenure.ErrLost, err)
				}
				return nil
			}
		})
	}, "errors-say-what-to-do"},
	{"leases are never renewed", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) { l.lease = func(*brokenLease) { l.line.cut() } })
	}, "renewed-while-held"},
	{"one failed renewal loses the lease", func() Fixture {
		f := NewMemory().Fixture(brokenTTL)
		cut := f.Cut
		f.Cut = func(l tenure.Leaser) { cut(l); loseAll(l.(*memoryLeaser)) }
		return f
	}, "short-outage-is-survived"},
	{"leases are lost before their deadline", func() Fixture {
		f := NewMemory().Fixture(brokenTTL)
		cut := f.Cut
		f.Cut = func(l tenure.Leaser) { cut(l); loseAll(l.(*memoryLeaser)) }
		return f
	}, "done-closes-at-the-local-deadline"},
	{"Done closes two TTLs late", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			late := make(chan struct{})
			go func() { <-x.memoryLease.Done(); <-time.After(2 * brokenTTL); close(late) }()
			x.closes = late
		})
	}, "done-closes-at-the-local-deadline"},
	{"Done closes after the next holder has begun", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			late := make(chan struct{})
			go func() { <-x.memoryLease.Done(); <-time.After(2 * brokenTTL); close(late) }()
			x.closes = late
		})
	}, "exclusive-under-partitions"},
	{"Check returns nil after a loss", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.check = func() error { return nil } })
	}, "exclusive-under-partitions"},
	{"the deadline counts from the answer", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			answered := time.Now()
			x.deadline = func() time.Time { return answered.Add(brokenTTL) }
		})
	}, "deadline-counts-from-the-send"},
	{"leases that the store shows are held on after a loss", func() Fixture { return breakEach(believeTheStore) }, "loss-is-final"},
	{"Check returns nil again a TTL after a loss", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			var lost time.Time
			x.check = func() error {
				err := x.memoryLease.Check()
				if err != nil && lost.IsZero() {
					lost = time.Now()
				}
				if err != nil && time.Since(lost) > brokenTTL {
					return nil
				}
				return err
			}
		})
	}, "late-renewal-is-a-loss"},
	{"renewals after the deadline count", func() Fixture { return breakEach(believeTheStore) }, "late-renewal-is-a-loss"},
	{"the lock delay is left out", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.LockDelay = 0 })
	}, "lock-delay-after-a-loss"},
	{"the lock delay is added to the TTL", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.TTL, c.LockDelay = c.TTL+c.LockDelay, 0 })
	}, "lock-delay-after-a-loss"},
	{"renewals come every third of TTL and lock delay", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			if c := x.entry.claim; (c.TTL+c.LockDelay)/3 > c.TTL {
				x.cancel(nil)
			}
		})
	}, "lock-delay-longer-than-the-ttl"},
	{"lock delays are cut to a TTL", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.LockDelay = min(c.LockDelay, c.TTL) })
	}, "lock-delay-longer-than-the-ttl"},
	{"releases wait for the lock delay", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(ctx context.Context) error {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.end(fmt.Errorf("%w by its holder", tenure.ErrReleased))
				return nil
			}
		})
	}, "lock-delay-longer-than-the-ttl"},
	{"a release after the loss ends the lock delay", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(ctx context.Context) error {
				defer x.leaser.store.remove(x.entry)
				return x.memoryLease.Release(ctx)
			}
		})
	}, "lock-delay-longer-than-the-ttl"},
	{"leases are renewed after their loss", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			go func() {
				for range 10 {
					<-time.After(brokenTTL)
					x.leaser.store.renew(x.entry)
				}
			}()
		})
	}, "lock-delay-longer-than-the-ttl"},
	{"Release frees the name at the deadline only", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(context.Context) error { x.leaser.line.cut(); defer x.leaser.line.heal(); return nil }
		})
	}, "release-frees-at-once"},
	{"Release frees other holders, too", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.lease = func(x *brokenLease) {
				x.release = func(ctx context.Context) error {
					m.mu.Lock()
					m.keep(x.Name(), func(*entry) bool { return false })
					m.mu.Unlock()
					return x.memoryLease.Release(ctx)
				}
			}
		})
	}, "release-never-frees-a-newer-holder"},
	{"Release returns nil after a loss", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(ctx context.Context) error { x.memoryLease.Release(ctx); return nil }
		})
	}, "release-never-frees-a-newer-holder"},
	{"Close leaves leases held", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.close = func() error { l.cancel(); l.line.cut(); return nil }
		})
	}, "close-releases"},
	{"Acquire returns long after its context ends", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				lease, err := l.memoryLeaser.Acquire(ctx, c)
				if err != nil {
					<-time.After(2 * brokenTTL)
				}
				return lease, err
			}
		})
	}, "waiting-ends-with-the-context"},
	{"an outage is returned as a HeldError", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				lease, err := l.memoryLeaser.Acquire(ctx, c)
				if errors.Is(err, tenure.ErrUnavailable) {
					s, _, _, _, _ := m.look(c.Name, nil)
					err = fmt.Errorf("%w: %w", held(s), err)
				}
				return lease, err
			}
		})
	}, "waiting-ends-with-the-context"},
	{"claims that are given up stay in the queue", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				lease, err := l.memoryLeaser.Acquire(ctx, c)
				if errors.Is(err, context.DeadlineExceeded) {
					c.Slots = 1
					m.enqueue(c)
				}
				return lease, err
			}
		})
	}, "waiting-ends-with-the-context"},
	{"TryAcquire hides the cause of each error", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.try = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				lease, err := l.memoryLeaser.TryAcquire(ctx, c)
				if err != nil {
					return nil, errors.New("no")
				}
				return lease, err
			}
		})
	}, "try-tells-who-holds"},
	{"calls that have ended are kept in memory", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				context.AfterFunc(l.ctx, func() { <-ctx.Done() })
				return l.memoryLeaser.Acquire(ctx, c)
			}
		})
	}, "ended-calls-are-forgotten"},
	{"Observe shows no holders", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.observe = func(s tenure.State) tenure.State { s.Holders = nil; return s }
		})
	}, "observe-does-not-contend"},
	{"Observe shows no Until", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.observe = func(s tenure.State) tenure.State {
				for i := range s.Holders {
					s.Holders[i].Until = time.Time{}
				}
				return s
			}
		})
	}, "observe-does-not-contend"},
	{"bad TTLs are changed until they are valid", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.TTL = c.TTL.Abs() })
	}, "bad-claims-are-refused"},
	{"each Leaser keeps records of its own", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			mine := map[string][]byte{}
			l.set = func(lease tenure.Lease, record []byte) bool { mine[lease.Name()] = record; return true }
			l.record = func(name string) ([]byte, error) { return mine[name], nil }
		})
	}, "records-stay-for-the-next-holders"},
	{"all names share one record", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.set = func(_ tenure.Lease, record []byte) bool { m.records[""] = record; return true }
			l.record = func(string) ([]byte, error) { return m.record(""), nil }
		})
	}, "records-stay-for-the-next-holders"},
	{"the first record of a tenure stays", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			set := map[uint64]bool{}
			l.set = func(lease tenure.Lease, _ []byte) bool {
				already := set[lease.Token()]
				set[lease.Token()] = true
				return already
			}
		})
	}, "records-stay-for-the-next-holders"},
	{"a release takes the record along", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.record = func(name string) ([]byte, error) {
				if s, _, _, _, _ := m.look(name, nil); len(s.Holders) == 0 {
					return nil, nil
				}
				return m.record(name), nil
			}
		})
	}, "records-stay-for-the-next-holders"},
	{"a restart loses the records", func() Fixture {
		m := NewMemory()
		f := m.Fixture(brokenTTL)
		f.Restart = func() error { clear(m.records); return nil }
		return f
	}, "records-stay-for-the-next-holders"},
	{"a closed Leaser shows records", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.record = func(name string) ([]byte, error) { return m.record(name), nil }
		})
	}, "records-stay-for-the-next-holders"},
	{"a record needs no lease", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.set = func(lease tenure.Lease, record []byte) bool {
				if len(record) > maxRecord {
					return false
				}
				m.records[lease.Name()] = slices.Clone(record)
				return true
			}
		})
	}, "records-are-set-by-holders-only"},
	{"records have any length", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.set = func(lease tenure.Lease, record []byte) bool {
				if len(record) > maxRecord {
					m.records[lease.Name()] = record
				}
				return len(record) > maxRecord
			}
		})
	}, "records-are-set-by-holders-only"},
	{"a record of no bytes changes nothing", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.set = func(lease tenure.Lease, record []byte) bool {
				return record == nil && lease.Check() == nil && lease.(*memoryLease).leaser == l.memoryLeaser
			}
		})
	}, "records-are-set-by-holders-only"},
	{"a record is the caller's slice", func() Fixture {
		return breakEach(func(m *Memory, l *broken) {
			l.set = func(lease tenure.Lease, record []byte) bool {
				if lease.Check() != nil || len(record) > maxRecord || lease.(*memoryLease).leaser != l.memoryLeaser {
					return false
				}
				m.records[lease.Name()] = record
				return true
			}
		})
	}, "records-are-set-by-holders-only"},
	{"a new lease ends the Leaser's others", func() Fixture {
		return breakLeases(func(x *brokenLease) { serial.Add(1); loseAll(x.leaser) })
	}, "many-goroutines-share-a-leaser"},
}

// believeTheStore makes leases that live as long as an observer says so.
func believeTheStore(m *Memory, l *broken) {
	l.lease = func(x *brokenLease) {
		x.check = func() error {
			s, _, _, _, _ := m.look(x.Name(), nil)
			for _, h := range s.Holders {
				if h.Token == x.Token() {
					return nil
				}
			}
			return x.memoryLease.Check()
		}
	}
}

// lastFirst has exclusive claims that wait give way to every later one.
func lastFirst() Fixture {
	var mu sync.Mutex
	waiting := map[string][]int{}
	return breakEach(func(_ *Memory, l *broken) {
		l.wait = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
			me := int(serial.Add(1))
			mu.Lock()
			waiting[c.Name] = append(waiting[c.Name], me)
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				waiting[c.Name] = slices.DeleteFunc(waiting[c.Name], func(other int) bool { return other == me })
			}()
			for {
				mu.Lock()
				last := slices.Max(waiting[c.Name]) == me
				mu.Unlock()
				if last {
					if lease, err := l.memoryLeaser.TryAcquire(ctx, c); err == nil {
						return lease, nil
					}
				}
				select {
				case <-time.After(brokenTTL / 100):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		}
		l.observe = func(s tenure.State) tenure.State {
			mu.Lock()
			defer mu.Unlock()
			s.Waiting = len(waiting[s.Name])
			return s
		}
	})
}

// loseAll ends the tenures of a Leaser.
func loseAll(l *memoryLeaser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for x := range l.leases {
		x.mu.Lock()
		x.end(fmt.Errorf("%w: one renewal failed", tenure.ErrLost))
		x.mu.Unlock()
	}
}

// TestSuiteHasTeeth runs the suite on engines that break a promise.
func TestSuiteHasTeeth(t *testing.T) {
	impatient(t)
	caught := map[string]bool{}
	for _, m := range misbehaviors {
		caught[m.want] = true
		t.Run(m.what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				r := record(t, m.want, m.make())
				if errs := r.found(); len(errs) == 0 {
					t.Errorf("%q found nothing (skipped: %v)", m.want, r.skipped)
				} else {
					t.Logf("%s: %s", m.want, errs[0])
				}
				time.Sleep(time.Minute) // what a misbehavior waits for
			})
		})
	}
	for _, c := range cases {
		if !caught[c.name] {
			t.Errorf("case %q was never seen to fail", c.name)
		}
	}
}

// TestSkipsAreVisible: an engine whose fixture makes no trouble is not passed by
// the cases that need some.
func TestSkipsAreVisible(t *testing.T) {
	f := NewMemory().Fixture(brokenTTL)
	f.Cut, f.Heal, f.Lag, f.Restart = nil, nil, nil, nil
	for _, name := range []string{"exclusive-under-partitions", "done-closes-at-the-local-deadline", "late-renewal-is-a-loss", "tokens-grow-over-a-restart"} {
		if r := record(t, name, f); !r.skipped || len(r.found()) > 0 {
			t.Errorf("%s: skipped is %v, errors are %q; want a skip", name, r.skipped, r.found())
		}
	}
}
