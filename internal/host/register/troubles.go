package register

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// troubles has the errors of the stores, for callers that waited in vain.
type troubles struct {
	mu      sync.Mutex
	failing []error // by store
	stale   []error
}

var errStale = errors.New("went back, restored from an old copy or without its memory; it does not count for a while")

// note takes in an outcome of quorumregister.
func (t *troubles) note(event quorumregister.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch out := event.(type) {
	case quorumregister.Failing:
		t.failing = set(t.failing, out.Base, out.Err)
	case quorumregister.Stale:
		t.stale = set(t.stale, out.Base, errStale)
	case quorumregister.Counted:
		t.stale = set(t.stale, out.Base, nil)
	}
}

func set(errs []error, i int, err error) []error {
	for len(errs) <= i {
		errs = append(errs, nil)
	}
	errs[i] = err
	return errs
}

// explain adds the possible cause to err, the end of a caller's patience.
func (t *troubles) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, errs := range [][]error{t.failing, t.stale} {
		for i, e := range errs {
			if e != nil {
				err = fmt.Errorf("%w; store %d: %w", err, i, e)
			}
		}
	}
	return err
}
