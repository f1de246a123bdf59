package leasetest

import (
	"context"
	"time"

	"github.com/tenure-lease/tenure"
)

// broken is a correct Leaser with some of its methods replaced.
type broken struct {
	*memoryLeaser
	wait    func(context.Context, tenure.Claim) (tenure.Lease, error) // Acquire
	try     func(context.Context, tenure.Claim) (tenure.Lease, error) // TryAcquire
	claim   func(tenure.Claim) tenure.Claim                           // the claim made instead
	lease   func(*brokenLease)                                        // breaks each lease
	observe func(tenure.State) tenure.State
	look    func(name string) error                         // of Observe, instead; nil goes on
	await   func(tenure.State, error) (tenure.State, error) // what Await returns
	close   func() error
	record  func(name string) ([]byte, error)                   // Record
	set     func(lease tenure.Lease, record []byte) (done bool) // SetRecord, instead if done
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
	if l.look != nil {
		if err := l.look(name); err != nil {
			return tenure.State{Name: name}, err
		}
	}
	s, err := l.memoryLeaser.Observe(ctx, name)
	if err == nil && l.observe != nil {
		s = l.observe(s)
	}
	return s, err
}

func (l *broken) Await(ctx context.Context, since tenure.State) (tenure.State, error) {
	s, err := tenure.Await(ctx, l.memoryLeaser, since)
	if l.await != nil {
		return l.await(s, err)
	}
	return s, err
}

func (l *broken) Record(ctx context.Context, name string) ([]byte, error) {
	if l.record != nil {
		return l.record(name)
	}
	return l.memoryLeaser.Record(ctx, name)
}

func (l *broken) SetRecord(ctx context.Context, lease tenure.Lease, record []byte) error {
	if l.set != nil && l.set(lease, record) {
		return nil
	}
	return l.memoryLeaser.SetRecord(ctx, lease, record)
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
	name     func() string
	token    func() uint64
	deadline func() time.Time
	closes   <-chan struct{}
	check    func() error // of Err, too, unless there is why
	why      func() error // of Err
	release  func(context.Context) error
}

func (x *brokenLease) Name() string {
	if x.name != nil {
		return x.name()
	}
	return x.memoryLease.Name()
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
	if x.why != nil {
		return x.why()
	}
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
	fix.Suspend = func(l tenure.Leaser, d time.Duration) { good.Suspend(inner(l), d) }
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
