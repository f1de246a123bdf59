package leasetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// broken is a correct Leaser with some of its methods replaced.
type broken struct {
	*memoryLeaser
	wait    func(context.Context, tenure.Claim) (tenure.Lease, error) // Acquire
	try     func(context.Context, tenure.Claim) (tenure.Lease, error) // TryAcquire
	claim   func(tenure.Claim) tenure.Claim                           // what is claimed instead
	lease   func(*brokenLease)                                        // breaks each lease
	observe func(tenure.State) tenure.State
	close   func() error
}

func (l *broken) get(ctx context.Context, c tenure.Claim, acquire func(context.Context, tenure.Claim) (tenure.Lease, error)) (tenure.Lease, error) {
	if l.claim != nil {
		c = l.claim(c)
	}
	lease, err := acquire(ctx, c)
	if err != nil || l.lease == nil {
		return lease, err
	}
	b := &brokenLease{memoryLease: lease.(*memoryLease)}
	l.lease(b)
	return b, nil
}

func (l *broken) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	if l.wait != nil {
		return l.wait(ctx, c)
	}
	return l.get(ctx, c, l.memoryLeaser.Acquire)
}

func (l *broken) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	if l.try != nil {
		return l.try(ctx, c)
	}
	return l.get(ctx, c, l.memoryLeaser.TryAcquire)
}

func (l *broken) Observe(ctx context.Context, name string) (tenure.State, error) {
	s, err := l.memoryLeaser.Observe(ctx, name)
	if err == nil && l.observe != nil {
		s = l.observe(s)
	}
	return s, err
}

func (l *broken) Close() error {
	if l.close != nil {
		return l.close()
	}
	return l.memoryLeaser.Close()
}

// brokenLease is a correct lease with some of its methods replaced.
type brokenLease struct {
	*memoryLease
	token    func() uint64
	deadline func() time.Time
	closes   <-chan struct{}
	check    func() error
	release  func(context.Context) error
}

func (x *brokenLease) Token() uint64 {
	if x.token != nil {
		return x.token()
	}
	return x.memoryLease.Token()
}

func (x *brokenLease) Deadline() time.Time {
	if x.deadline != nil {
		return x.deadline()
	}
	return x.memoryLease.Deadline()
}

func (x *brokenLease) Done() <-chan struct{} {
	if x.closes != nil {
		return x.closes
	}
	return x.memoryLease.Done()
}

func (x *brokenLease) Check() error {
	if x.check != nil {
		return x.check()
	}
	return x.memoryLease.Check()
}

func (x *brokenLease) Err() error {
	if x.check != nil {
		return x.check()
	}
	return x.memoryLease.Err()
}

func (x *brokenLease) Release(ctx context.Context) error {
	if x.release != nil {
		return x.release(ctx)
	}
	return x.memoryLease.Release(ctx)
}

const brokenTTL = 400 * time.Millisecond

// breakEach makes a fixture whose Leasers are broken by f.
func breakEach(f func(m *Memory, l *broken)) Fixture {
	m := NewMemory()
	fix := m.Fixture(brokenTTL)
	inner := func(l tenure.Leaser) tenure.Leaser { return l.(*broken).memoryLeaser }
	good := fix
	fix.Open = func() (tenure.Leaser, error) {
		l := &broken{memoryLeaser: m.Open().(*memoryLeaser)}
		f(m, l)
		return l, nil
	}
	fix.Cut = func(l tenure.Leaser) { good.Cut(inner(l)) }
	fix.Heal = func(l tenure.Leaser) { good.Heal(inner(l)) }
	fix.Lag = func(l tenure.Leaser, d time.Duration) { good.Lag(inner(l), d) }
	return fix
}

// breakLeases makes one whose leases are broken by f.
func breakLeases(f func(x *brokenLease)) Fixture {
	return breakEach(func(_ *Memory, l *broken) { l.lease = f })
}

// breakClaims makes one that claims something else than it was asked to.
func breakClaims(f func(c *tenure.Claim)) Fixture {
	return breakEach(func(_ *Memory, l *broken) {
		l.claim = func(c tenure.Claim) tenure.Claim { f(&c); return c }
	})
}

var serial atomic.Uint64

// misbehaviors are engines that break a promise, and the case that must say so.
var misbehaviors = []struct {
	what string
	make func() Fixture
	want string // the name of a case
}{
	{"everybody holds", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Name = fmt.Sprintf("%s%d", c.Name, serial.Add(1)) })
	}, "exclusive-holders-never-overlap"},
	{"exclusive is shared", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Slots = tenure.Shared })
	}, "shared-beside-shared-only"},
	{"one slot too many", func() Fixture {
		return breakClaims(func(c *tenure.Claim) {
			if c.Slots > 1 {
				c.Slots++
			}
		})
	}, "slots-are-never-exceeded"},
	{"slots are one", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Slots = 1 })
	}, "shared-beside-shared-only"},
	{"readers overtake", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.try = func(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
				if c.Slots == tenure.Shared {
					c.Name = fmt.Sprintf("%s%d", c.Name, serial.Add(1))
				}
				return l.memoryLeaser.TryAcquire(ctx, c)
			}
		})
	}, "arrivals-are-not-overtaken"},
	{"names below a name are that name", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.Name = strings.TrimSuffix(c.Name, "/sub") })
	}, "names-are-independent"},
	{"tokens begin anew with each Leaser", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			var count uint64
			l.lease = func(x *brokenLease) { count++; n := count; x.token = func() uint64 { return n } }
		})
	}, "tokens-only-grow"},
	{"the token is that of the last release", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.token = func() uint64 { return 7 } })
	}, "exclusive-holders-never-overlap"},
	{"tokens are forgotten over a restart", func() Fixture {
		m := NewMemory()
		f := m.Fixture(brokenTTL)
		f.Restart = func() error { m.token = 0; return nil }
		return f
	}, "tokens-grow-over-a-restart"},
	{"nothing is renewed", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) { l.lease = func(*brokenLease) { l.line.cut() } })
	}, "renewed-while-held"},
	{"the first failed renewal is a loss", func() Fixture {
		f := NewMemory().Fixture(brokenTTL)
		cut := f.Cut
		f.Cut = func(l tenure.Leaser) { cut(l); loseAll(l.(*memoryLeaser)) }
		return f
	}, "short-outage-is-survived"},
	{"lost before the deadline", func() Fixture {
		f := NewMemory().Fixture(brokenTTL)
		cut := f.Cut
		f.Cut = func(l tenure.Leaser) { cut(l); loseAll(l.(*memoryLeaser)) }
		return f
	}, "done-closes-at-the-local-deadline"},
	{"Done closes late", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			late := make(chan struct{})
			go func() { <-x.memoryLease.Done(); <-time.After(2 * brokenTTL); close(late) }()
			x.closes = late
		})
	}, "done-closes-at-the-local-deadline"},
	{"Done closes late, and the next holder has begun", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			late := make(chan struct{})
			go func() { <-x.memoryLease.Done(); <-time.After(2 * brokenTTL); close(late) }()
			x.closes = late
		})
	}, "exclusive-under-partitions"},
	{"Check believes in the best", func() Fixture {
		return breakLeases(func(x *brokenLease) { x.check = func() error { return nil } })
	}, "exclusive-under-partitions"},
	{"the deadline counts from the answer", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			answered := time.Now()
			x.deadline = func() time.Time { return answered.Add(brokenTTL) }
		})
	}, "deadline-counts-from-the-send"},
	{"what the store shows is believed", func() Fixture { return breakEach(believeTheStore) }, "loss-is-final"},
	{"a late renewal counts", func() Fixture { return breakEach(believeTheStore) }, "late-renewal-is-a-loss"},
	{"there is no lock delay", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.LockDelay = 0 })
	}, "lock-delay-after-a-loss"},
	{"the lock delay is the holder's", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.TTL, c.LockDelay = c.TTL+c.LockDelay, 0 })
	}, "lock-delay-after-a-loss"},
	{"Release waits for the deadline", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(context.Context) error { x.leaser.line.cut(); defer x.leaser.line.heal(); return nil }
		})
	}, "release-frees-at-once"},
	{"Release frees whoever holds", func() Fixture {
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
	{"Release hides a loss", func() Fixture {
		return breakLeases(func(x *brokenLease) {
			x.release = func(ctx context.Context) error { x.memoryLease.Release(ctx); return nil }
		})
	}, "release-never-frees-a-newer-holder"},
	{"Close keeps the leases", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.close = func() error { l.cancel(); l.line.cut(); return nil }
		})
	}, "close-releases"},
	{"Acquire does not look at its context", func() Fixture {
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
	{"who gives up stays in the queue", func() Fixture {
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
	{"TryAcquire says no without a reason", func() Fixture {
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
	{"nobody is seen to hold", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.observe = func(s tenure.State) tenure.State { s.Holders = nil; return s }
		})
	}, "observe-does-not-contend"},
	{"nobody knows until when", func() Fixture {
		return breakEach(func(_ *Memory, l *broken) {
			l.observe = func(s tenure.State) tenure.State {
				for i := range s.Holders {
					s.Holders[i].Until = time.Time{}
				}
				return s
			}
		})
	}, "observe-does-not-contend"},
	{"a bad claim is bent until it fits", func() Fixture {
		return breakClaims(func(c *tenure.Claim) { c.TTL = c.TTL.Abs() })
	}, "bad-claims-are-refused"},
	{"one lease at a time", func() Fixture {
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
	caught := map[string]bool{}
	for _, m := range misbehaviors {
		caught[m.want] = true
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			r := record(t, m.want, m.make())
			if errs := r.found(); len(errs) == 0 {
				t.Errorf("%q found nothing (skipped: %v)", m.want, r.skipped)
			} else {
				t.Logf("%s: %s", m.want, errs[0])
			}
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
