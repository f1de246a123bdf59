package storage

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestJoin: a set is made of more than half of its stores, all of it given, in any order. The places come back
// by store, and a missing store has the place that is left.
func TestJoin(t *testing.T) {
	errGone := errors.New("it is gone")
	header := func(of, index int) register.Header {
		return register.Header{Set: machine.ID{1}, Of: of, Index: index, Term: 10 * time.Second, Delay: time.Second / 10, Drift: 1000}
	}
	there := func(name string, of, index int) Place[register.Store] {
		return Place[register.Store]{Name: name, Store: register.NewMemory(header(of, index)).Open()}
	}
	gone := func(name string) Place[register.Store] { return Place[register.Store]{Name: name, Err: errGone} }
	type found = []Place[register.Store]
	for what, tt := range map[string]struct {
		found found
		names []string // by store
		says  string
		is    error
	}{
		"one":                {found{there("a", 1, 0)}, []string{"a"}, "", nil},
		"three in any order": {found{there("a", 3, 2), there("b", 3, 0), there("c", 3, 1)}, []string{"b", "c", "a"}, "", nil},
		"two of three":       {found{there("a", 3, 2), gone("b"), there("c", 3, 0)}, []string{"c", "b", "a"}, "", nil},
		"three of five":      {found{gone("a"), there("b", 5, 4), gone("c"), there("d", 5, 0), there("e", 5, 2)}, []string{"d", "a", "e", "c", "b"}, "", nil},
		"none of one":        {found{gone("a")}, nil, "it is gone", errGone},
		"one of two":         {found{there("a", 2, 1), gone("b")}, nil, "1 of 2 stores can be used, and a set needs more than half:\nit is gone", errGone},
		"one of three":       {found{gone("a"), there("b", 3, 1), gone("c")}, nil, "1 of 3 stores can be used, and a set needs more than half:\nit is gone\nit is gone", errGone},
		"too few are given":  {found{there("a", 3, 0), there("b", 3, 1)}, nil, "a is one of a set of 3, and 2 paths are given: " + register.ErrMismatch.Error() + ": give them all, in any order", register.ErrMismatch},
		"one twice":          {found{there("a", 3, 0), there("b", 3, 0), there("c", 3, 1)}, nil, "", register.ErrMismatch},
	} {
		clk := &clock.Fake{}
		clk.Advance(time.Hour)
		l, places, err := Join(tt.found, "paths", "stores", Options{Clock: clk})
		if tt.is != nil {
			if !errors.Is(err, tt.is) || tt.says != "" && err.Error() != tt.says {
				t.Errorf("%s: got %v, want %v that says %q", what, err, tt.is, tt.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v, want a Leaser", what, err)
			continue
		}
		defer l.Close()
		for i, name := range tt.names {
			if len(places) != len(tt.names) || places[i].Name != name || places[i].Err == nil && places[i].Store.Header().Index != i {
				t.Errorf("%s: the places are %+v, want those of %v", what, places, tt.names)
				break
			}
		}
	}
}
