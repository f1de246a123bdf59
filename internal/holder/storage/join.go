package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// Place is a path or an address where a store of a set was looked for.
type Place[S register.Store] struct {
	Name  string
	Store S
	Err   error // why there is no store
}

// Join makes a Leaser of the stores that were found, which have to be more than half of a set. It
// returns the places by store; a missing store gets a place that is left. Errors say given for
// the places, and stores for the stores there.
func Join[S register.Store](found []Place[S], given, stores string, o Options) (*Leaser, []Place[S], error) {
	n := len(found)
	var open []register.Store
	var errs []error
	for _, x := range found {
		if x.Err != nil {
			errs = append(errs, x.Err)
			continue
		}
		open = append(open, x.Store)
		if of := x.Store.Header().Of; of != n {
			return nil, nil, fmt.Errorf("%s is one of a set of %d, and %d %s are given: %w: give them all, in any order", x.Name, of, n, given, register.ErrMismatch)
		}
	}
	if len(open) <= n/2 {
		err := errors.Join(errs...)
		if n > 1 {
			err = fmt.Errorf("%d of %d %s can be used, and a set needs more than half:\n%w", len(open), n, stores, err)
		}
		return nil, nil, err
	}
	set, err := register.NewSetBy(o.Clock.Now, open)
	if err != nil {
		return nil, nil, err
	}
	places := make([]Place[S], n)
	for _, x := range found {
		if x.Err == nil {
			places[x.Store.Header().Index] = x
		}
	}
	for _, x := range found {
		if x.Err != nil {
			at := slices.IndexFunc(places, func(p Place[S]) bool { return p.Name == "" })
			places[at] = x
		}
	}
	return New(set, o), places, nil
}
