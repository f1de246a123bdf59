package node

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// A start that waits to begin anew ends when it is told to, and leaves the data as it was: the next one begins anew.
func TestAStartByForceIsAborted(t *testing.T) {
	cfg, seen, former := lost(t, func(*Config) {})
	bubble.Test(t, func(t *testing.T) {
		cfg := alone(cfg, true)
		abort := make(chan struct{})
		cfg.Abort = abort
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { close(abort) })
		if _, err := Start(cfg); !errors.Is(err, ErrAborted) {
			t.Errorf("a start that is told to end: %v, want %v", err, ErrAborted)
		}
		if waited := time.Since(began); waited > 4*time.Second {
			t.Errorf("a start that is told to end after 3 s ends after %v", waited)
		}
		cfg.Abort = nil
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Stop()
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		goesOn(t, n, seen, former)
	})
}
