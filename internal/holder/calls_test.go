package holder

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// TestAwait: a call that waits for a value gets it, or ends with its caller or with Close.
func TestAwait(t *testing.T) {
	for name, c := range map[string]struct {
		before func(value chan<- int, cancel context.CancelFunc, calls *Calls)
		want   int
		ok     bool
	}{
		"a value":             {func(value chan<- int, _ context.CancelFunc, _ *Calls) { value <- 7 }, 7, true},
		"the end of values":   {func(value chan<- int, _ context.CancelFunc, _ *Calls) { close(value) }, 0, true},
		"the end of a caller": {func(_ chan<- int, cancel context.CancelFunc, _ *Calls) { cancel() }, 0, false},
		"Close":               {func(_ chan<- int, _ context.CancelFunc, calls *Calls) { calls.Close() }, 0, false},
	} {
		bubble.Test(t, func(t *testing.T) { // a call that waits on is told in words
			ctx, cancel := context.WithCancel(t.Context())
			calls := NewCalls(context.Background(), nil)
			in, err := calls.Call(ctx)
			if err != nil {
				t.Fatal(err)
			}
			calls.Leave() // so that Close does not wait for it
			value := make(chan int, 1)
			c.before(value, cancel, calls)
			if got, ok := Await(in, value); got != c.want || ok != c.ok {
				t.Errorf("%s: Await returns %d and %v, want %d and %v", name, got, ok, c.want, c.ok)
			}
			cancel()
		})
	}
}

// TestEndedCallsAreForgotten: nothing of a Leaser refers to the context of a call that has ended.
func TestEndedCallsAreForgotten(t *testing.T) {
	type key struct{}
	calls := NewCalls(context.Background(), nil)
	forgotten := new(atomic.Bool)
	func() {
		tracked := new([1 << 10]byte)
		runtime.AddCleanup(tracked, func(forgotten *atomic.Bool) { forgotten.Store(true) }, forgotten)
		_, end, err := calls.Begin(context.WithValue(t.Context(), key{}, tracked))
		if err != nil {
			t.Fatal(err)
		}
		end()
	}()
	for looks := 0; !forgotten.Load(); looks++ {
		if looks == 100 {
			t.Fatal("the call has ended, and something refers to its context")
		}
		runtime.GC()
		runtime.Gosched()
	}
	calls.Close()
}

// TestCloseOfCalls: Close ends the calls that are under way, lets none begin, and returns once all
// have left. A call whose caller has gone before was not cut short by it.
func TestCloseOfCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		calls := NewCalls(context.Background(), nil)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := calls.Err(); err != nil || calls.CutShort(t.Context()) {
			t.Errorf("before Close: Err is %v, and CutShort %v", err, calls.CutShort(t.Context()))
		}
		ctx, end, err := calls.Begin(t.Context())
		in, err2 := calls.Call(t.Context())
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		closed := false
		go func() { calls.Close(); closed = true }()
		synctest.Wait()
		if cause := context.Cause(ctx); cause != tenure.ErrClosed {
			t.Errorf("the context of a call ends with %v, want %v", cause, tenure.ErrClosed)
		}
		if err := in.Cut(); err != tenure.ErrClosed || !in.cutShort() {
			t.Errorf("a call ends with %v, cut short: %v; want %v", err, in.cutShort(), tenure.ErrClosed)
		}
		if calls.Err() != tenure.ErrClosed || !calls.CutShort(t.Context()) || calls.CutShort(gone) {
			t.Errorf("Err is %v; CutShort is %v, and %v for a caller that has gone; want %v, true and false",
				calls.Err(), calls.CutShort(t.Context()), calls.CutShort(gone), tenure.ErrClosed)
		}
		if _, end, err := calls.Begin(t.Context()); err != tenure.ErrClosed {
			t.Errorf("Begin after Close returns %v, want %v", err, tenure.ErrClosed)
			end()
		}
		if _, err := calls.Call(t.Context()); err != tenure.ErrClosed {
			t.Errorf("Call after Close returns %v, want %v", err, tenure.ErrClosed)
			calls.Leave()
		}
		for _, leave := range []func(){calls.Leave, end} {
			if closed {
				t.Error("Close has returned, and a call is under way")
			}
			leave()
			synctest.Wait()
		}
		if !closed {
			t.Fatal("all calls have left, and Close has not returned")
		}
	})
}

// TestCallsOfALeaserThatEnds: a Leaser that ends by itself ends its calls with an error of its own,
// which is not that of Close.
func TestCallsOfALeaserThatEnds(t *testing.T) {
	errBroken := errors.New("broken")
	life, die := context.WithCancelCause(t.Context())
	calls := NewCalls(life, func(cause error) error { return fmt.Errorf("the peer has ended: %w", cause) })
	ctx, end, err := calls.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	die(errBroken)
	const want = "the peer has ended: broken"
	<-ctx.Done()
	if _, err = calls.Call(t.Context()); err == nil {
		calls.Leave()
	}
	for what, err := range map[string]error{"the call ends with": context.Cause(ctx), "Err is": calls.Err(), "the next call gets": err} {
		if err == nil || err.Error() != want || !errors.Is(err, errBroken) {
			t.Errorf("%s %v, want %s", what, err, want)
		}
	}
	if calls.CutShort(t.Context()) {
		t.Error("a call that ended with its Leaser counts as cut short by Close")
	}
	end()
	calls.Close()
}
