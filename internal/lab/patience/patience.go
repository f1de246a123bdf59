// Package patience has tests wait for turns of a machine, and not for seconds: a busy machine stretches
// each turn, and so the patience. On an idle one it ends after eight seconds, which is before a test is
// stopped from outside. So a rule that is broken is named by the test.
package patience

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	turns   = 800
	oneTurn = 10 * time.Millisecond
	oneLook = time.Millisecond // from one look of Until to the next
)

var errVain = errors.New("the test has waited in vain")

// Begin begins to wait. The context ends when the test has waited in vain, or has called stop, which it may.
func Begin(t testing.TB) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop = func() { cancel(nil) }
	t.Cleanup(stop)
	go func() {
		for range turns {
			select {
			case <-time.After(oneTurn):
			case <-ctx.Done():
				return
			}
		}
		cancel(errVain)
	}()
	return ctx, stop
}

// Soon is a context that ends when a test has waited in vain.
func Soon(t testing.TB) context.Context {
	ctx, _ := Begin(t)
	return ctx
}

// Until waits until something is the case.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, stop := Begin(t)
	defer stop()
	for !is() {
		if ctx.Err() != nil {
			t.Fatalf("in vain waited until %s", what)
		}
		time.Sleep(oneLook)
	}
}

// Within returns what a channel has, or the zero value once it is closed. It fails if neither comes.
func Within[T any](t testing.TB, from <-chan T, what string) (got T) {
	t.Helper()
	ctx, stop := Begin(t)
	defer stop()
	select {
	case got = <-from:
	case <-ctx.Done():
		t.Fatalf("in vain waited until %s", what)
	}
	return got
}

// Returns returns what a call returns that may not wait for ever.
func Returns(t testing.TB, what string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	return Within(t, done, what+" returns")
}
