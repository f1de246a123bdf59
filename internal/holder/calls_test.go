package holder

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
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
