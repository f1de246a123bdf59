package broadcast

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A test waits for turns of a machine, and not for seconds: a busy machine stretches each turn, and so
// the patience. On an idle one the patience ends after eight seconds, which is before a test is
// stopped from outside. So a rule that is broken is named by the test.
const (
	turns    = 800
	oneTurn  = 10 * time.Millisecond
	untilNow = time.Millisecond // from one look of until to the next
)

var errVain = errors.New("the test has waited in vain")

// Soon is a context that ends when a test has waited in vain.
func Soon(t testing.TB) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
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
	return ctx
}

// until waits until something is the case.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for ctx := Soon(t); !is(); time.Sleep(untilNow) {
		if ctx.Err() != nil {
			t.Fatalf("in vain waited until %s", what)
		}
	}
}

// Within returns what a channel has, or the zero value once it is closed. It fails if neither comes.
func Within[T any](t testing.TB, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-Soon(t).Done():
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
