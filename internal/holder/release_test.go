package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// recorded is a claim that notes the calls of the runtime.
type recorded struct {
	Lease
	did  []string
	wait func(context.Context) error // for the release to be confirmed; nil: it is at once
}

func (c *recorded) Release(ctx context.Context) error { return Release(ctx, c) }
func (c *recorded) note(what string) {
	if c.Err() == nil {
		what += " while held"
	}
	c.did = append(c.did, what)
}
func (c *recorded) GiveBack()               { c.note("give back") }
func (c *recorded) Abandon(context.Context) { c.note("abandon") }
func (c *recorded) AwaitFreed(ctx context.Context, left time.Duration) error {
	c.note(fmt.Sprintf("await %v", left))
	if c.wait != nil {
		return c.wait(ctx)
	}
	return nil
}

// TestRelease: the tenure ends before the store is told, which is told once; of a tenure that was
// lost it is told nothing, and nothing is left locked.
func TestRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		late time.Duration
		want []string
		is   error
	}{
		"in time":  {59, []string{"give back", "await 1ns", "await 1ns"}, nil},
		"too late": {60, []string{"abandon", "abandon"}, tenure.ErrLost},
	} {
		var clk clock.Fake
		c := &recorded{Lease: Make(&Clocks{Mono: &clk}, "x", "h", nil)}
		c.Begin(1, 60, 0)
		clk.Advance(tt.late)
		for range 2 {
			// The test would hang at a lock that is left.
			wait := begin(c)
			if !c.mu.TryLock() {
				t.Fatalf("%s: its lock is held: the next call of it would hang", name)
			}
			c.mu.Unlock()
			if err := wait(t.Context()); !errors.Is(err, tt.is) {
				t.Errorf("%s: a release returns %v, want %v", name, err, tt.is)
			}
		}
		if !slices.Equal(c.did, tt.want) {
			t.Errorf("%s: two releases ask the engine for %q, want %q", name, c.did, tt.want)
		}
	}
}

// TestReleaseAll: a Leaser that closes waits for its releases to be confirmed until its patience is
// over, and returns the first ten errors in the order of its claims, but nothing of lost tenures.
func TestReleaseAll(t *testing.T) {
	never := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	after := func(d time.Duration, err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return err }
	}
	errBroken := errors.New("broken")
	twelve := slices.Repeat([]func(context.Context) error{after(0, errBroken)}, 12)
	for name, c := range map[string]struct {
		claims []func(context.Context) error // nil: the tenure was lost
		each   bool
		took   time.Duration
		want   string
	}{
		"nothing to release":   {nil, false, 0, ""},
		"all are confirmed":    {[]func(context.Context) error{after(time.Second, nil), after(2*time.Second, nil)}, false, 2 * time.Second, ""},
		"one is not":           {[]func(context.Context) error{after(4*time.Second, nil), never}, false, 5 * time.Second, "\"b\": waited for some seconds"},
		"patience for each":    {[]func(context.Context) error{after(4*time.Second, nil), never}, true, 9 * time.Second, "\"b\": waited for some seconds"},
		"no patience for less": {[]func(context.Context) error{after(4*time.Second, errBroken), never}, true, 5 * time.Second, "\"a\": broken\n\"b\": waited for some seconds"},
		"one was lost":         {[]func(context.Context) error{nil, after(time.Second, nil)}, false, time.Second, ""},
		"too many errors":      {twelve, false, 0, "\"a\": broken\n\"b\": broken\n\"c\": broken\n\"d\": broken\n\"e\": broken\n\"f\": broken\n\"g\": broken\n\"h\": broken\n\"i\": broken\n\"j\": broken"},
	} {
		bubble.Test(t, func(t *testing.T) {
			var clk clock.Fake
			var all []*recorded
			for i, wait := range c.claims {
				x := &recorded{Lease: Make(&Clocks{Mono: &clk}, string(rune('a'+i)), "h", nil), wait: wait}
				if x.Begin(1, 60, 0); wait == nil {
					x.Lose(errBroken)
				}
				all = append(all, x)
			}
			begun, got := time.Now(), ""
			if err := ReleaseAll(all, 5*time.Second, c.each); err != nil {
				got = err.Error()
			}
			if took := time.Since(begun); got != c.want || took != c.took {
				t.Errorf("%s: it returns %q after %v, want %q after %v", name, got, took, c.want, c.took)
			}
		})
	}
}

// TestReleasesUnderWay: releases begin in the order of the claims, and no more than the window
// holds are under way.
func TestReleasesUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const many = window + 10
		var clk clock.Fake
		underWay, confirmed := 0, make(chan struct{})
		all := make([]*recorded, many)
		for i := range all {
			stop := func() {
				if i != underWay {
					t.Errorf("claim %d is released as number %d", i, underWay)
				}
				underWay++
			}
			all[i] = &recorded{Lease: Make(&Clocks{Mono: &clk}, "x", "h", stop), wait: func(context.Context) error { <-confirmed; return nil }}
			all[i].Begin(1, 60, 0)
		}
		ended := false
		go func() { _ = ReleaseAll(all, time.Hour, false); ended = true }()
		for want := window; want < many; want++ {
			if synctest.Wait(); underWay != want {
				t.Errorf("%d releases are under way or confirmed, want %d", underWay, want)
				close(confirmed)
				return
			}
			confirmed <- struct{}{}
		}
		if synctest.Wait(); underWay != many || ended {
			t.Errorf("%d of %d releases have begun; it has ended: %v", underWay, many, ended)
		}
		close(confirmed)
		if synctest.Wait(); !ended {
			t.Error("all are confirmed, and it has not ended")
		}
	})
}

// TestUnconfirmed: the error of a release says for how long the lease stands in the way, if that is
// known, and why it was not confirmed.
func TestUnconfirmed(t *testing.T) {
	for left, want := range map[time.Duration]string{
		0:                          "the release was not confirmed, the lease ends by itself: trouble",
		500 * time.Millisecond:     "the release was not confirmed, the lease ends by itself within 500ms: trouble",
		1500400 * time.Microsecond: "the release was not confirmed, the lease ends by itself within 1.5s: trouble",
	} {
		if err := Unconfirmed(left, errTrouble); err.Error() != want || !errors.Is(err, errTrouble) {
			t.Errorf("%v: it says %q, want %q", left, err, want)
		}
	}
}
