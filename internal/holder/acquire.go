package holder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
)

// Engine contends for claims at a store.
type Engine interface {
	// Complete fills in a claim's defaults, or says which field to change.
	Complete(tenure.Claim) (tenure.Claim, error)
	// Contend makes one attempt. If it is admitted, the claim's tenure has begun. If not, the
	// attempt leaves nothing behind at the store, or only traces that vanish by themselves.
	Contend(Call, tenure.Claim) (Claim, error)
	// Again reports whether another attempt makes sense after an error, and how long to wait before
	// it.
	Again(Call, error) (pause time.Duration, again bool)
	// Explain turns the error that ended the call into the error that the caller gets. A HeldError
	// is passed on as it is.
	Explain(Call, tenure.Claim, error) error
	// Patience is how long a TryAcquire waits for the store.
	Patience() time.Duration
}

// Admit is Acquire, or with try TryAcquire, for all engines.
func Admit(outer context.Context, calls *Calls, e Engine, c tenure.Claim, try bool) (Claim, error) {
	c, err := e.Complete(c)
	if err != nil {
		return nil, err
	}
	in, err := calls.Call(outer)
	if err != nil {
		return nil, err
	}
	defer calls.Leave()
	if in.Try = try; try {
		bound, cancel := in.Within(e.Patience())
		defer cancel()
		in = bound
	}
	for {
		x, err := e.Contend(in, c)
		if err == nil {
			if x.Check() == nil {
				return x, nil
			}
			continue // lost before anybody knew of it
		}
		if in.cutShort() {
			return nil, tenure.ErrClosed
		}
		if pause, again := e.Again(in, err); again {
			cut := in.Wait(pause)
			if cut == nil {
				continue
			}
			err = fmt.Errorf("%w: %w", cut, err)
		}
		switch {
		case in.cutShort():
			return nil, tenure.ErrClosed
		case errors.As(err, new(tenure.HeldError)):
			return nil, err
		}
		return nil, e.Explain(in, c, err)
	}
}

// Unexplained is the error of an Acquire to which an engine has nothing to add.
func Unexplained(name string, err error) error { return fmt.Errorf("acquire %q: %w", name, err) }
