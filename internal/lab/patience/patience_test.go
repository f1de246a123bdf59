package patience

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that notes how it fails.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// A test that waits in vain fails after 800 turns, with what it waited for; one that does not goes on at once.
func TestPatience(t *testing.T) {
	for _, tt := range []struct {
		what string
		wait func(t testing.TB)
		said string
		took time.Duration
	}{
		{"a channel", func(t testing.TB) { Within(t, make(chan int), "it comes") }, "in vain waited until it comes", 8 * time.Second},
		{"a condition", func(t testing.TB) { Until(t, "it is so", func() bool { return false }) }, "in vain waited until it is so", 8 * time.Second},
		{"a call", func(t testing.TB) {
			end := make(chan struct{})
			t.Cleanup(func() { close(end) })
			_ = Returns(t, "Close", func() error { <-end; return nil })
		}, "in vain waited until Close returns", 8 * time.Second},
		{"what is there", func(t testing.TB) {
			began := time.Now()
			Within(t, time.After(time.Second), "a second passes")
			Until(t, "two have passed", func() bool { return time.Since(began) >= 2*time.Second })
			if err := Returns(t, "a call", func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("a call's error is %v", err)
			}
		}, "", 2 * time.Second},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, began, done := &failing{TB: t}, time.Now(), make(chan struct{})
				go func() { defer close(done); tt.wait(f) }()
				<-done
				if took := time.Since(began); f.said != tt.said || took < tt.took || took > tt.took+oneTurn {
					t.Errorf("it says %q after %v, want %q after %v", f.said, took, tt.said, tt.took)
				}
			})
		})
	}
}
