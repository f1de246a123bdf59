package server

import (
	"context"
	"errors"
	"testing"
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
