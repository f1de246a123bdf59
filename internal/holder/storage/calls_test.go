package storage_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// brought is the outcome of a call with a caller's context.
type brought struct{ _ [64]byte }

type broughtKey struct{}

// calls are all that a Leaser does, each from its beginning to its end, while another holds "held".
func calls(l *storage.Leaser) map[string]func(ctx context.Context) error {
	claim := func(name string) tenure.Claim { return tenure.Claim{Name: name} }
	release := func(ctx context.Context, lease tenure.Lease, err error) error {
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
	return map[string]func(ctx context.Context) error{
		"Acquire": func(ctx context.Context) error {
			lease, err := l.Acquire(ctx, claim("x"))
			return release(ctx, lease, err)
		},
		"an Acquire that gives up": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, term/2)
			defer cancel()
			if _, err := l.Acquire(ctx, claim("held")); !held(err) {
				return err
			}
			return nil
		},
		"TryAcquire": func(ctx context.Context) error {
			lease, err := l.TryAcquire(ctx, claim("x"))
			return release(ctx, lease, err)
		},
		"a TryAcquire of what is held": func(ctx context.Context) error {
			if _, err := l.TryAcquire(ctx, claim("held")); !held(err) {
				return err
			}
			return nil
		},
		"Observe": func(ctx context.Context) error {
			_, err := l.Observe(ctx, "x")
			return err
		},
		"Await": func(ctx context.Context) error {
			_, err := l.Await(ctx, tenure.State{Name: "held"})
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := l.List(ctx, "")
			return err
		},
		"Agree": func(ctx context.Context) error {
			_, err := l.Agree(ctx, "x", []byte("mine"))
			return err
		},
		"Decided": func(ctx context.Context) error {
			_, _, err := l.Decided(ctx, "x")
			return err
		},
		"Health": func(ctx context.Context) error {
			_, err := l.Health(ctx, "x")
			return err
		},
	}
}

// TestCallsKeepNothing: a call that has ended keeps nothing of its caller's context. A process that
// calls for months would fill its memory.
func TestCallsKeepNothing(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "held")
		l, _ := all.open(t, storage.Options{})
		for what, call := range calls(l) {
			kept := make(chan weak.Pointer[brought])
			go func() { // whose stack goes with it
				b := new(brought)
				if err := call(context.WithValue(t.Context(), broughtKey{}, b)); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				kept <- weak.Make(b)
			}()
			b := <-kept
			time.Sleep(term) // the accesses end
			for range 10 {
				if runtime.GC(); b.Value() == nil {
					break
				}
			}
			if b.Value() != nil {
				t.Errorf("%s has ended, and its caller's context is still kept", what)
			}
		}
	})
}

// guests is a store that knows which writers have asked it something and have not left.
type guests struct {
	register.Store
	mu     sync.Mutex
	inside map[machine.ID]string // the name
}

func (g *guests) Do(ops []register.Op) []register.Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, op := range ops {
		if _, leaves := op.Op.(register.Leave); leaves {
			delete(g.inside, op.Writer)
		} else {
			g.inside[op.Writer] = op.Name
		}
	}
	return g.Store.Do(ops)
}

func (g *guests) left() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Values(g.inside))
}

// TestWhoeverAskedLeaves: the stores hear that a writer is gone when a call of any kind has ended.
// They keep the caller's place until then.
func TestWhoeverAskedLeaves(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "held")
		g := &guests{Store: all[0].Open(), inside: map[machine.ID]string{}}
		c := oneClock()
		set, err := register.NewSetBy(c.Now, []register.Store{g})
		if err != nil {
			t.Fatal(err)
		}
		l := storage.New(set, storage.Options{Clock: c})
		defer l.Close()
		for what, call := range calls(l) {
			if err := call(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			time.Sleep(term) // the accesses end
			if left := g.left(); len(left) > 0 {
				t.Errorf("%s has ended, and has not left the stores: they keep places at the registers %q", what, left)
				clear(g.inside)
			}
		}
	})
}

// stoppable is a clock of which a reading waits while it is told to.
type stoppable struct {
	clock.Clock
	gate atomic.Pointer[chan struct{}]
}

func (c *stoppable) Now() machine.Mono {
	if gate := c.gate.Load(); gate != nil {
		<-*gate
	}
	return c.Clock.Now()
}

// TestCloseWaitsForCalls: when Close has returned no call is under way, so that none claims anything in stores
// that are closed, or closes with them.
func TestCloseWaitsForCalls(t *testing.T) {
	simulate(t, func(t *testing.T) {
		stops := &stoppable{Clock: oneClock()}
		l, _ := newMemories(1, term, delay).open(t, storage.Options{Clock: stops})
		gate := make(chan struct{})
		stops.gate.Store(&gate)
		ended, closed := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			l.Observe(t.Context(), "x")
		}()
		synctest.Wait()
		go func() {
			defer close(closed)
			l.Close()
		}()
		select {
		case <-closed:
			t.Error("Close has returned, and a call is still under way")
		case <-time.After(time.Minute):
		}
		close(gate)
		<-ended
		<-closed
	})
}

// TestCloseIsNoTroubleWithStores: a call that waits for stores that fail, and is ended by Close,
// returns the error of Close alone.
func TestCloseIsNoTroubleWithStores(t *testing.T) {
	for what := range calls(nil) {
		t.Run(what, func(t *testing.T) {
			simulate(t, func(t *testing.T) {
				all := newMemories(3, term, delay)
				l, faults := all.open(t, storage.Options{})
				faults[0].Hang()
				faults[1].Fail(register.ErrInjected)
				ended := make(chan error, 1)
				go func() { ended <- calls(l)[what](t.Context()) }()
				time.Sleep(delay)
				l.Close()
				if err := <-ended; !errors.Is(err, tenure.ErrClosed) || errors.Is(err, tenure.ErrUnavailable) {
					t.Errorf("ended by Close: %v, want %v and nothing of the stores", err, tenure.ErrClosed)
				}
			})
		})
	}
}
