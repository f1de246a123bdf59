package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// crowded is a store that takes a while, and knows at how many names it was asked to look at a time.
type crowded struct {
	register.Store
	most atomic.Int32
}

func (c *crowded) Do(ops []register.Op) []register.Reply {
	time.Sleep(delay / 4)
	names := map[string]bool{}
	for _, op := range ops {
		if _, query := op.Op.(quorumregister.Query); query {
			names[op.Name] = true
		}
	}
	c.most.Store(max(c.most.Load(), int32(len(names)))) // one caller at a time
	return c.Store.Do(ops)
}

// TestAListOfMany: it looks at some names at a time, which share accesses, and at all of them in the end.
func TestAListOfMany(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		store := &crowded{Store: faults[0].Store}
		faults[0].Store = store
		for i := range 150 { // more than twice as many as it looks at at a time
			if err := acquire(t, l, fmt.Sprintf("free/%03d", i)).Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		store.most.Store(0)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if names, err := l.List(t.Context(), "free/"); err != nil || len(names) != 0 {
				t.Errorf("%q, %v: want none, for all were released", names, err)
			}
		}()
		select {
		case <-ended:
		case <-time.After(100 * term):
			t.Error("a list of many names does not end")
		}
		if most := store.most.Load(); most < 32 || most > 64 {
			t.Errorf("it looked at up to %d names at a time, want about 64", most)
		}
	})
}

// TestAListIsNoWitness: it keeps no observation, or every List would write a file for each name
// that is held.
func TestAListIsNoWitness(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all, state := newMemories(1, term, delay), t.TempDir()
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "x")
		l, _ := all.open(t, storage.Options{State: state})
		if names, err := l.List(t.Context(), ""); err != nil || len(names) != 1 {
			t.Fatalf("%q, %v, want x", names, err)
		}
		if n := witnessFiles(t, state); n != 0 {
			t.Errorf("a list has left %d witnesses", n)
		}
	})
}

// TestAListOfWhatCannotBeRead is an error: a name that could not be looked at may be free, or held.
func TestAListOfWhatCannotBeRead(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		for _, name := range []string{"x", "y", "z"} {
			acquire(t, l, name)
		}
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, query := op.Op.(quorumregister.Query); query && op.Name == "y" {
				return register.LostBefore
			}
			return register.None
		}
		names, err := l.List(t.Context(), "")
		if !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, register.ErrInjected) {
			t.Errorf("%q, %v: want %v, for one of three names cannot be read", names, err, tenure.ErrUnavailable)
		}
		if !slices.Equal(names, []string{"x", "z"}) {
			t.Errorf("as held are listed %q, and of y nobody knows", names)
		}
	})
}
