package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/member/node"
)

// differs is a member whose data the others contradict.
type differs struct{ asked int }

func (d *differs) CheckAgainstOthers(ctx context.Context) error {
	d.asked++
	if _, bounded := ctx.Deadline(); !bounded {
		return nil
	}
	return errors.New("odd data")
}

// A member whose data the others contradict does not start, if it is to ask.
func TestInitialCheck(t *testing.T) {
	var d differs
	if err := (Config{}).compareAtStart(&d); err != nil || d.asked != 0 {
		t.Errorf("unasked: got %v, and it has compared %d times", err, d.asked)
	}
	if err := (Config{InitialCheck: true}).compareAtStart(&d); err == nil || d.asked != 1 {
		t.Errorf("asked: got %v, and it has compared %d times; want that it cannot start", err, d.asked)
	}
}

// waits is a member that hears nothing of the others.
type waits struct{}

func (waits) CheckAgainstOthers(ctx context.Context) error {
	<-ctx.Done()
	return nil // which is no reason not to start
}

// A comparison that waits for the others ends when the start is to end.
func TestInitialCheckIsAborted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		abort := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(abort) })
		began := time.Now()
		if err := (Config{InitialCheck: true, Node: node.Config{Abort: abort}}).compareAtStart(waits{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("a start that is told to end after a second compares for %v", took)
		}
	})
}
