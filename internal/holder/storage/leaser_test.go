package storage

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestEndedClaimsAreForgotten: a Leaser that lives for long keeps no claim that has ended, however
// it did, and lets go of its locks.
func TestEndedClaimsAreForgotten(t *testing.T) {
	for what, end := range map[string]func(t *testing.T, l *Leaser, f *register.Faults, held tenure.Lease){
		"released": func(t *testing.T, l *Leaser, f *register.Faults, held tenure.Lease) {
			if err := held.Release(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"given up": func(t *testing.T, l *Leaser, f *register.Faults, held tenure.Lease) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.Acquire(ctx, tenure.Claim{Name: "x"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			held.Release(t.Context())
		},
		"refused": func(t *testing.T, l *Leaser, f *register.Faults, held tenure.Lease) {
			if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); !errors.As(err, new(tenure.HeldError)) {
				t.Error(err)
			}
			held.Release(t.Context())
		},
		"lost": func(t *testing.T, l *Leaser, f *register.Faults, held tenure.Lease) {
			f.Fail(register.ErrInjected)
			<-held.Done()
		},
		"lost, and released then": func(t *testing.T, l *Leaser, f *register.Faults, held tenure.Lease) {
			f.Fail(register.ErrInjected)
			<-held.Done()
			if err := held.Release(t.Context()); !errors.Is(err, tenure.ErrLost) {
				t.Error(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := clock.NewSimulated(1)
				h := register.Header{Set: machine.ID{1}, Of: 1, Term: 2 * time.Second, Delay: 10 * time.Millisecond}
				f := &register.Faults{Store: register.NewMemory(h).Open()}
				set, err := register.NewSetBy(c.Now, []register.Store{f})
				if err != nil {
					t.Fatal(err)
				}
				l := New(set, Options{Clock: c})
				got, err := l.Acquire(t.Context(), tenure.Claim{Name: "x"})
				if err != nil {
					t.Fatal(err)
				}
				end(t, l, f, got)
				time.Sleep(100 * time.Millisecond)
				l.mu.Lock()
				n := len(l.claims)
				l.mu.Unlock()
				if n > 0 {
					t.Errorf("%d claims are kept", n)
				}
				if x := got.(*claim); !x.mu.TryLock() {
					t.Fatal("its lock is held: the next call of it would hang")
				} else {
					x.mu.Unlock()
				}
				l.Close()
			})
		})
	}
}

// closing is a store that notes that it was closed.
type closing struct {
	register.Store
	closed atomic.Bool
}

func (c *closing) Close() error { c.closed.Store(true); return c.Store.Close() }

// TestCloseWaitsForClaims: no machine of a claim is left when Close returns, and the stores are
// closed behind the last one.
func TestCloseWaitsForClaims(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := clock.NewSimulated(1)
		store := &closing{Store: register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: time.Second, Delay: time.Millisecond}).Open()}
		set, err := register.NewSetBy(c.Now, []register.Store{store})
		if err != nil {
			t.Fatal(err)
		}
		l := New(set, Options{Clock: c})
		l.minded.Add(1) // a claim whose machine takes long to stop
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.Close()
		}()
		time.Sleep(time.Minute)
		select {
		case <-ended:
			t.Error("Close has returned, and the machine of a claim is still there")
		default:
		}
		if store.closed.Load() {
			t.Error("the stores are closed, and the machine of a claim is still there")
		}
		l.minded.Done()
		<-ended
		if !store.closed.Load() {
			t.Error("Close has returned, and has not closed the stores")
		}
	})
}

// TestTheClockOfALeaser is that of the system unless another is given.
func TestTheClockOfALeaser(t *testing.T) {
	other := clock.NewSimulated(1)
	for given, want := range map[clock.Clock]clock.Clock{nil: clock.System, other: other} {
		set, err := register.NewSet([]register.Store{register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: time.Second, Delay: time.Millisecond}).Open()})
		if err != nil {
			t.Fatal(err)
		}
		l := New(set, Options{Clock: given})
		if l.clock != want {
			t.Errorf("with the clock %v it goes by %v, want %v", given, l.clock, want)
		}
		l.Close()
	}
}
