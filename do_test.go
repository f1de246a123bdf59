package tenure_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/leasetest"
)

const ttl = 10 * time.Second

// inMemory runs f with fake time and a store of leases.
func inMemory(t *testing.T, f func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		store := leasetest.NewMemory()
		f(t, store, store.Fixture(ttl))
	})
}

func TestDo(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		claim := tenure.Claim{Name: "n", TTL: ttl}
		failure := errors.New("failure")
		for _, want := range []error{nil, failure} {
			var used tenure.Lease
			err := tenure.Do(t.Context(), l, claim, func(ctx context.Context, lease tenure.Lease) error {
				used = lease
				time.Sleep(5 * ttl) // of the bubble's time
				if ctx.Err() != nil || lease.Check() != nil {
					t.Errorf("during the work: context %v, check %v", ctx.Err(), lease.Check())
				}
				return want
			})
			if err != want {
				t.Errorf("Do returns %v, want %v", err, want)
			}
			if err := used.Err(); !errors.Is(err, tenure.ErrReleased) {
				t.Errorf("after Do the lease's Err is %v, want %v", err, tenure.ErrReleased)
			}
		}
	})
}

func TestDoLosesTheLease(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		failure := errors.New("failure")
		err := tenure.Do(t.Context(), l, tenure.Claim{Name: "n", TTL: ttl}, func(ctx context.Context, _ tenure.Lease) error {
			fix.Cut(l)
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, tenure.ErrLost) {
				t.Errorf("the context ends because of %v, want %v", cause, tenure.ErrLost)
			}
			fix.Heal(l)
			return failure
		})
		if !errors.Is(err, tenure.ErrLost) || !errors.Is(err, failure) {
			t.Errorf("Do returns %v, want it to wrap %v and %v", err, tenure.ErrLost, failure)
		}
		// The work did not notice: Do did.
		err = tenure.Do(t.Context(), l, tenure.Claim{Name: "n", TTL: ttl}, func(context.Context, tenure.Lease) error {
			fix.Cut(l)
			time.Sleep(2 * ttl)
			fix.Heal(l)
			return nil
		})
		if !errors.Is(err, tenure.ErrLost) {
			t.Errorf("Do returns %v, want it to wrap %v", err, tenure.ErrLost)
		}
	})
}

func TestDoReleases(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		claim := tenure.Claim{Name: "n", TTL: ttl}
		// When its caller's context is over,
		ctx, cancel := context.WithCancel(t.Context())
		err := tenure.Do(ctx, l, claim, func(ctx context.Context, _ tenure.Lease) error {
			cancel()
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != context.Canceled {
				t.Errorf("the context ends because of %v, want %v", cause, context.Canceled)
			}
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Do returns %v, want %v", err, context.Canceled)
		}
		// and when the work panics.
		func() {
			defer func() {
				if got := recover(); got != "panic" {
					t.Errorf("recovered %v, want the work's panic", got)
				}
			}()
			tenure.Do(t.Context(), l, claim, func(context.Context, tenure.Lease) error { panic("panic") })
		}()
		lease, err := l.TryAcquire(t.Context(), claim)
		if err != nil {
			t.Fatalf("the lease was not given back: %v", err)
		}
		lease.Release(t.Context())
	})
}

// heard is a Leaser of leases that tell when they are released.
type heard struct {
	tenure.Leaser
	release func(context.Context)
}

func (h heard) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	lease, err := h.Leaser.Acquire(ctx, c)
	return heardLease{lease, h.release}, err
}

type heardLease struct {
	tenure.Lease
	release func(context.Context)
}

func (l heardLease) Release(ctx context.Context) error {
	l.release(ctx)
	return l.Lease.Release(ctx)
}

// TestDoReleasesForWhoIsGone: the store is told, though the caller's context is over.
func TestDoReleasesForWhoIsGone(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		releases := 0
		_ = tenure.Do(ctx, heard{l, func(ctx context.Context) {
			if releases++; ctx.Err() != nil {
				t.Errorf("the release may not reach the store: %v", ctx.Err())
			}
		}}, tenure.Claim{Name: "n", TTL: ttl}, func(context.Context, tenure.Lease) error {
			cancel()
			return nil
		})
		if releases != 1 {
			t.Errorf("the lease was released %d times, want once", releases)
		}
	})
}

// TestTheContextEndsBeforeTheRelease: goroutines that the work has begun under its context
// are told to stop before the next holder may start.
func TestTheContextEndsBeforeTheRelease(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		for _, want := range []error{nil, errors.New("failure")} {
			var work context.Context
			releases := 0
			err := tenure.Do(t.Context(), heard{l, func(context.Context) {
				if releases++; work.Err() == nil {
					t.Error("the lease is released while the context of the work goes on")
				}
			}}, tenure.Claim{Name: "n", TTL: ttl}, func(ctx context.Context, _ tenure.Lease) error {
				work = ctx
				return want
			})
			if err != want || releases != 1 {
				t.Errorf("Do returns %v after %d releases, want %v after 1", err, releases, want)
			}
			if cause := context.Cause(work); cause != context.Canceled {
				t.Errorf("the context of work that has returned ended because of %v", cause)
			}
		}
	})
}

func TestDoIsNotAdmitted(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		err := tenure.Do(t.Context(), l, tenure.Claim{}, func(context.Context, tenure.Lease) error {
			t.Error("the work runs without a lease")
			return nil
		})
		if !errors.Is(err, tenure.ErrClaim) {
			t.Errorf("Do returns %v, want %v", err, tenure.ErrClaim)
		}
	})
}

// TestDoGivesUp: the caller's context is over while the lease is another's.
func TestDoGivesUp(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		holder, l := store.Open(), store.Open()
		defer holder.Close()
		defer l.Close()
		claim := tenure.Claim{Name: "n", TTL: ttl}
		if _, err := holder.Acquire(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
		defer cancel()
		began := time.Now()
		late := time.AfterFunc(5*ttl, func() { holder.Close() }) // so that a Do that waits on ends
		defer late.Stop()
		err := tenure.Do(ctx, l, claim, func(context.Context, tenure.Lease) error {
			t.Error("the work runs beside the holder's, or for nobody")
			return nil
		})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 2*ttl {
			t.Errorf("Do returns %v after %v, want %v after %v", err, took, context.DeadlineExceeded, 2*ttl)
		}
	})
}

// TestDoUnguardedEnd: work that does not notice that its lease is lost succeeds, and was not guarded.
func TestDoUnguardedEnd(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		err := tenure.Do(t.Context(), l, tenure.Claim{Name: "n", TTL: ttl}, func(context.Context, tenure.Lease) error {
			fix.Cut(l)
			time.Sleep(2 * ttl)
			return nil
		})
		if !errors.Is(err, tenure.ErrLost) {
			t.Errorf("Do returns %v, want %v", err, tenure.ErrLost)
		}
	})
}

// TestDoTellsThatNothingWasReleased: the work was guarded to its end, and the store did not hear
// that it is over: the next holder waits for the deadline.
func TestDoTellsThatNothingWasReleased(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, fix leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		failure := errors.New("failure")
		err := tenure.Do(t.Context(), l, tenure.Claim{Name: "n", TTL: ttl}, func(context.Context, tenure.Lease) error {
			fix.Cut(l)
			return failure
		})
		if !errors.Is(err, failure) || !strings.Contains(err.Error(), `release "n": `) || errors.Is(err, tenure.ErrLost) {
			t.Errorf("Do returns %v, want %v and why nothing was released", err, failure)
		}
	})
}

// late is a Leaser whose leases are over by the clock, and nothing has noticed yet.
type late struct{ tenure.Leaser }

func (l late) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	lease, err := l.Leaser.Acquire(ctx, c)
	return lateLease{lease}, err
}

type lateLease struct{ tenure.Lease }

func (lateLease) Check() error { return fmt.Errorf("%w: its deadline has passed", tenure.ErrLost) }

// TestDoReadsTheClock: the work was guarded to its end if the lease was held then by the clock, for what
// closes Done may come a moment later.
func TestDoReadsTheClock(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		err := tenure.Do(t.Context(), late{l}, tenure.Claim{Name: "n", TTL: ttl}, func(context.Context, tenure.Lease) error { return nil })
		if !errors.Is(err, tenure.ErrLost) {
			t.Errorf("the deadline has passed while Done is open: Do returns %v, want %v", err, tenure.ErrLost)
		}
	})
}

// TryDo runs the work if the lease is free, and else says that it is held without calling it.
func TestTryDo(t *testing.T) {
	inMemory(t, func(t *testing.T, store *leasetest.Memory, _ leasetest.Fixture) {
		l := store.Open()
		defer l.Close()
		claim := tenure.Claim{Name: "n", TTL: ttl, Holder: "first"}
		began := time.Now()
		failure, ran := errors.New("failure"), false
		err := tenure.TryDo(t.Context(), l, claim, func(ctx context.Context, lease tenure.Lease) error {
			err := tenure.TryDo(ctx, l, claim, func(context.Context, tenure.Lease) error { ran = true; return nil })
			var held tenure.HeldError
			if !errors.Is(err, tenure.ErrHeld) || !errors.As(err, &held) || held.Holder != "first" || time.Now() != began {
				t.Errorf("a second TryDo returns %v after %v, want %q at once, with the holder", err, time.Since(began), tenure.ErrHeld)
			}
			return failure
		})
		if err != failure || ran {
			t.Errorf("TryDo returns %v, and the second one has run: %v; want %v and false", err, ran, failure)
		}
		if s, err := l.Observe(t.Context(), "n"); err != nil || len(s.Holders) > 0 {
			t.Errorf("after TryDo the lease is held by %v, %v", s.Holders, err)
		}
	})
}
