package leasetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
)

// bench is what a case works with.
type bench struct {
	testing.TB
	Fixture
	ctx   context.Context // ends long after a case should have
	names string          // prefix of all names of this run

	acquired atomic.Int32
}

func newBench(t testing.TB, name string, f Fixture) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), 40*f.TTL+5*time.Second)
	t.Cleanup(cancel)
	return &bench{TB: t, Fixture: f, ctx: ctx, names: fmt.Sprintf("leasetest/%x/%s", rand.Uint32(), name)}
}

// leaser opens another one.
func (b *bench) leaser() tenure.Leaser {
	b.Helper()
	l, err := b.Open()
	if err != nil {
		b.Fatalf("open another Leaser: %v", err)
	}
	b.Cleanup(func() {
		if b.Cut == nil {
			l.Close()
			return
		}
		b.Heal(l)
		l.Close()
	})
	return l
}

// require skips the case unless the fixture can make the trouble.
func (b *bench) require(what string, has bool) {
	b.Helper()
	if !has {
		b.Skipf("the fixture has no %s", what)
	}
}

// claim is exclusive, for the main name of the case.
func (b *bench) claim() tenure.Claim {
	return tenure.Claim{Name: b.names, TTL: b.TTL, Holder: "holder"}
}

func (b *bench) acquire(l tenure.Leaser, c tenure.Claim) tenure.Lease {
	b.Helper()
	lease, err := l.Acquire(b.ctx, c)
	if err != nil {
		b.Fatalf("acquire %q: %v", c.Name, err)
	}
	if b.acquired.Add(1)%2 == 1 {
		_ = lease.Context() // each other lease is asked for its context before it ends; see ended
	}
	return lease
}

// now acquires a claim that must not have to wait.
func (b *bench) now(l tenure.Leaser, c tenure.Claim, when string) tenure.Lease {
	b.Helper()
	lease, err := l.TryAcquire(b.ctx, c)
	if err != nil {
		b.Fatalf("%s: TryAcquire returns %q, want a lease", when, err)
	}
	return lease
}

func (b *bench) release(lease tenure.Lease) {
	b.Helper()
	if err := lease.Release(b.ctx); err != nil {
		b.Errorf("release of a held lease: %v", err)
	}
}

// held reports a lease that should be held and is not.
func (b *bench) held(lease tenure.Lease, when string) {
	b.Helper()
	if err := lease.Check(); err != nil {
		b.Errorf("%s: Check returns %q, want nil", when, err)
	}
	if err := lease.Err(); err != nil {
		b.Errorf("%s: Err returns %q, want nil", when, err)
	}
	if closed(lease.Done()) {
		b.Errorf("%s: Done is closed, want it open", when)
	}
	if ctx := lease.Context(); closed(ctx.Done()) {
		b.Errorf("%s: the context has ended: %v", when, context.Cause(ctx))
	}
}

// ended reports a lease that should have ended for the reason and has not.
func (b *bench) ended(lease tenure.Lease, why error, when string) {
	b.Helper()
	if err := lease.Check(); !errors.Is(err, why) {
		b.Errorf("%s: Check returns %v, want %q", when, err, why)
	}
	if err := lease.Err(); !errors.Is(err, why) {
		b.Errorf("%s: Err returns %v, want %q", when, err, why)
	}
	if !closed(lease.Done()) {
		b.Errorf("%s: Done is open, want it closed", when)
	}
	if ctx := lease.Context(); !closed(ctx.Done()) || !errors.Is(context.Cause(ctx), why) {
		b.Errorf("%s: the context has ended: %v, with the cause %v, want %q", when, closed(ctx.Done()), context.Cause(ctx), why)
	}
}

// refused reports a claim that is admitted although the name is taken.
func (b *bench) refused(l tenure.Leaser, c tenure.Claim, when string) {
	b.Helper()
	lease, err := l.TryAcquire(b.ctx, c)
	if err == nil {
		b.Errorf("%s: TryAcquire got token %d, want a HeldError", when, lease.Token())
		lease.Release(b.ctx)
		return
	}
	if !errors.As(err, new(tenure.HeldError)) {
		b.Errorf("%s: TryAcquire returns %q, want a HeldError", when, err)
	}
}

// await waits for c, and stops the case if it takes longer than limit.
func (b *bench) await(c <-chan struct{}, limit time.Duration, what string) {
	b.Helper()
	if !within(c, limit) {
		b.Fatalf("%s: nothing within %v", what, limit)
	}
}

// turn is how often within looks at the time.
const turn = 10 * time.Millisecond

// within reports whether c is closed before d has passed. A time for which this process has had no
// turn counts little: that a machine is busy is no fault of a Leaser.
func within(c <-chan struct{}, d time.Duration) bool {
	for d > 0 {
		began := time.Now()
		select {
		case <-c:
			return true
		case <-time.After(min(d, turn)):
		}
		d -= min(time.Since(began), 2*turn)
	}
	<-time.After(time.Nanosecond) // events at that very moment count
	return closed(c)
}

// pass lets d pass: leases are about time.
func (b *bench) pass(d time.Duration) { <-time.After(d) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// judge knows the holders that are inside and complains about each that must not be.
type judge struct {
	b      *bench
	mu     sync.Mutex
	inside map[tenure.Lease]int // to the claim's slots
	last   uint64               // token
	count  int
	late   sync.WaitGroup
}

func (b *bench) judge() *judge { return &judge{b: b, inside: map[tenure.Lease]int{}} }

// had reports whether the lease was acquired so many times.
func (j *judge) had(times int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count >= times
}

// enter is called as soon as a claim for the name was admitted.
func (j *judge) enter(lease tenure.Lease, slots int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	holders, fewest := 1, slots
	for other, n := range j.inside {
		if other.Check() == nil {
			holders, fewest = holders+1, min(fewest, n)
			continue
		}
		delete(j.inside, other)
		j.late.Go(func() {
			if !within(other.Done(), grace) {
				j.b.Errorf("Done of token %d is open %v after token %d was admitted in its place", other.Token(), grace, lease.Token())
			}
		})
	}
	if holders > fewest {
		j.b.Errorf("token %d makes %d holders where %d are allowed: Check of the others returns nil", lease.Token(), holders, fewest)
	}
	if lease.Token() <= j.last && slots == 1 {
		j.b.Errorf("token %d was admitted after token %d", lease.Token(), j.last)
	}
	j.last = max(j.last, lease.Token())
	j.inside[lease] = slots
}

// leave is called before the lease is released.
func (j *judge) leave(lease tenure.Lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.inside, lease)
}

// contend acquires and releases until ctx is done, and calls inside each time.
func (j *judge) contend(ctx context.Context, l tenure.Leaser, c tenure.Claim, inside func()) {
	for ctx.Err() == nil {
		lease, err := l.Acquire(ctx, c)
		if err != nil {
			if ctx.Err() == nil {
				j.b.Errorf("acquire under contention: %v", err)
			}
			return
		}
		j.enter(lease, max(c.Slots, 1))
		inside() // to the end, even if the lease ends before: the judge asks it then
		j.leave(lease)
		// Lost or not confirmed: both happen under trouble, and end the tenure.
		_ = lease.Release(ctx)
	}
}

// stay is an inside that lasts for up to d.
func (b *bench) stay(d time.Duration) func() { return func() { b.pass(rand.N(d)) } }
