package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// acquired is how an Acquire ended.
type acquired struct {
	who   string
	lease tenure.Lease
	err   error
}

// wait begins an Acquire, and returns when it is the n-th that waits.
func wait(ctx context.Context, t *testing.T, l *etcd.Leaser, c tenure.Claim, n int, done chan<- acquired) {
	t.Helper()
	go func() {
		lease, err := l.Acquire(ctx, c)
		done <- acquired{c.Holder, lease, err}
	}()
	waitFor(t, c.Holder+" to wait", func() bool {
		s, err := l.Observe(t.Context(), c.Name)
		return err == nil && s.Waiting == n
	})
}

// next returns how the next Acquire ended, which must not have failed.
func next(t *testing.T, done <-chan acquired) acquired {
	t.Helper()
	select {
	case a := <-done:
		if a.err != nil {
			t.Fatalf("%s: %v", a.who, a.err)
		}
		return a
	case <-time.After(20 * time.Second):
		t.Fatal("nobody is admitted")
	}
	return acquired{}
}

// TestGivingUpSaysWhoHolds: the error of a waiter that gives up names the holder, and the waiter's
// key leaves the queue.
func TestGivingUpSaysWhoHolds(t *testing.T) {
	server := endpoint(t)
	l, plain := open(t, server), plainClient(t, server)
	claim := tenure.Claim{Name: t.Name(), Holder: "first", TTL: time.Minute}
	if _, err := l.Acquire(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	done := make(chan acquired, 1)
	claim.Holder = "second"
	wait(ctx, t, l, claim, 1, done)
	giveUp()
	var held tenure.HeldError
	if a := <-done; !errors.Is(a.err, context.Canceled) || !errors.As(a.err, &held) || held.Holder != "first" {
		t.Errorf("the waiter gave up, and is told: %v; want the name's holder, and %v", a.err, context.Canceled)
	}
	waitFor(t, "the key of the claim that gave up to go", func() bool { return queued(t, plain) == 1 })
}

// TestWaiterBehindOneWhoGaveUp: a waiter that gives up does not let the next waiter overtake the
// holder. The one behind takes its place in the queue, and goes on waiting.
func TestWaiterBehindOneWhoGaveUp(t *testing.T) {
	server := endpoint(t)
	l := open(t, server)
	var looks atomic.Int64
	last := around(t, server, transactions, nil, nil, func(n int) { looks.Store(int64(n)) })
	claim := func(holder string) tenure.Claim {
		return tenure.Claim{Name: t.Name(), Holder: holder, TTL: time.Minute}
	}
	held, err := l.Acquire(t.Context(), claim("holder"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	second, third := make(chan acquired, 1), make(chan acquired, 1)
	wait(ctx, t, l, claim("second"), 1, second)
	wait(t.Context(), t, last, claim("third"), 2, third)
	waitFor(t, "the third to watch", func() bool { return looks.Load() >= 3 }) // it joins, looks, and looks again
	before := looks.Load()
	giveUp()
	<-second
	waitFor(t, "the third to notice that the second has left", func() bool { return looks.Load() > before || len(third) > 0 })
	if held.Check() == nil && len(third) > 0 {
		t.Fatal("a waiter is admitted, because the one before it gave up, although the name is held")
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(t, third)
}

// TestReadersBehindAWriter: claims that share a name do not overtake an exclusive one that waits,
// though they would get on with the holder.
func TestReadersBehindAWriter(t *testing.T) {
	l := open(t, endpoint(t))
	claim := func(holder string, slots int) tenure.Claim {
		return tenure.Claim{Name: t.Name(), Holder: holder, TTL: time.Minute, Slots: slots}
	}
	first, err := l.Acquire(t.Context(), claim("a reader", tenure.Shared))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan acquired, 2)
	wait(t.Context(), t, l, claim("the writer", 1), 1, done)
	if _, err := l.TryAcquire(t.Context(), claim("who tries", tenure.Shared)); !errors.As(err, new(tenure.HeldError)) {
		t.Errorf("a reader tries for the name while a writer waits, and is told: %v; want that it is held", err)
	}
	go func() {
		lease, err := l.Acquire(t.Context(), claim("a later reader", tenure.Shared))
		done <- acquired{"a later reader", lease, err}
	}()
	waitFor(t, "the later reader to wait, or to overtake", func() bool {
		s, err := l.Observe(t.Context(), t.Name())
		return err == nil && s.Waiting == 2 || len(done) > 0
	})
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := next(t, done)
	if a.who != "the writer" {
		t.Fatalf("%s is admitted before the writer, which came before", a.who)
	}
	if err := a.lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next(t, done)
}
