package leasetest

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure"
)

// forgetful is for how many looks, a hundredth of a second apart, something may refer to a call.
var forgetful = 3000

// contextsAreForgotten makes calls of each kind, and looks whether the Leaser refers to their contexts when
// they have ended: in a program that runs for long such things fill the memory.
func contextsAreForgotten(b *bench) {
	holder, l := b.leaser(), b.leaser()
	c := b.claim()
	for _, call := range []struct {
		what string
		make func(context.Context) error
	}{
		{"TryAcquire and Release of a free name", func(ctx context.Context) error {
			lease, err := l.TryAcquire(ctx, c)
			if err == nil {
				err = lease.Release(ctx)
			}
			return err
		}},
		{"Acquire and Release of a free name", func(ctx context.Context) error {
			lease, err := l.Acquire(ctx, c)
			if err == nil {
				err = lease.Release(ctx)
			}
			return err
		}},
		{"Observe", func(ctx context.Context) error {
			_, err := l.Observe(ctx, c.Name)
			return err
		}},
		{"List", func(ctx context.Context) error {
			lister, ok := l.(tenure.Lister)
			if !ok {
				return nil
			}
			_, err := lister.List(ctx, c.Name)
			return err
		}},
		{"Await that gave up", func(ctx context.Context) error {
			waits, ok := l.(tenure.Awaiter)
			if !ok {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, b.TTL/10)
			defer cancel()
			if _, err := waits.Await(ctx, tenure.State{Name: c.Name}); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		}},
		{"TryAcquire of a name that is held", func(ctx context.Context) error {
			lease := b.acquire(holder, c)
			defer b.release(lease)
			if _, err := l.TryAcquire(ctx, c); !errors.As(err, new(tenure.HeldError)) {
				return err
			}
			return nil
		}},
		{"Acquire that gave up", func(ctx context.Context) error {
			lease := b.acquire(holder, c)
			defer b.release(lease)
			ctx, cancel := context.WithTimeout(ctx, b.TTL/10)
			defer cancel()
			if _, err := l.Acquire(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		}},
	} {
		forgotten := new(atomic.Bool)
		if err := withTracked(b.ctx, forgotten, call.make); err != nil {
			b.Fatalf("%s: %v", call.what, err)
		}
		// Time may be simulated, and then it does not wait for the garbage collector.
		for looks := 0; !forgotten.Load(); looks++ {
			if looks == forgetful {
				b.Errorf("%s: the call has ended, and something refers to its context", call.what)
				break
			}
			runtime.GC()
			b.pass(10 * time.Millisecond)
		}
	}
	runtime.KeepAlive(l)
}

// withTracked makes a call with a context that says when nobody refers to it any more.
func withTracked(ctx context.Context, forgotten *atomic.Bool, call func(context.Context) error) error {
	type key struct{}
	tracked := new([1 << 10]byte)
	runtime.AddCleanup(tracked, func(forgotten *atomic.Bool) { forgotten.Store(true) }, forgotten)
	ctx, cancel := context.WithCancel(context.WithValue(ctx, key{}, tracked))
	defer cancel()
	return call(ctx)
}
