package leases

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/etcd"
)

// brokenByForce is tenure lease break: what the engine writes is understood alike by both servers.
func brokenByForce(f *fixture) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	open := func() tenure.Leaser {
		l, err := etcd.Open(ctx, etcd.Config{Endpoints: f.cluster.Endpoints()})
		if err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() { l.Close() })
		return l
	}
	name := f.prefix + "lock"
	one, two := open(), open()
	broken, err := one.Acquire(ctx, tenure.Claim{Name: name, LockDelay: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	seen, err := two.Observe(ctx, name)
	if err != nil || len(seen.Holders) != 1 || seen.Holders[0].Token != broken.Token() {
		f.Fatalf("it is held by %+v, %v; want token %d", seen.Holders, err, broken.Token())
	}
	breaker := two.(interface {
		Break(ctx context.Context, name string, seen []tenure.Holding) error
	})
	if err := breaker.Break(ctx, name, seen.Holders); err != nil {
		f.Fatal(err)
	}
	next, err := two.TryAcquire(ctx, tenure.Claim{Name: name})
	if err != nil {
		f.Fatalf("behind the broken lease: %v", err)
	}
	select {
	case <-broken.Done():
	case <-ctx.Done():
	}
	if !errors.Is(broken.Err(), tenure.ErrLost) || next.Token() <= broken.Token() {
		f.Errorf("the broken lease, of token %d, ends with %v; want it lost, and a greater token than %d for the next", broken.Token(), broken.Err(), next.Token())
	}
	if err := breaker.Break(ctx, name, seen.Holders); err != nil {
		f.Errorf("a lease that is broken already: %v", err)
	}
	if err := next.Check(); err != nil {
		f.Errorf("the next holder's lease was broken with the one before: %v", err)
	}
}
