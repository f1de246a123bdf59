package redis

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitTellsItsEnd: a wait that its caller has given up is not over, so that nothing is done
// that it was for.
func TestWaitTellsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := wait(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("a wait of a minute ends after %v with %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := wait(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that was given up ends with %v, want %v", err, context.DeadlineExceeded)
		}
	})
}
