package tenure

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLost is the end of a tenure that was not released: the deadline
	// passed without a renewal, or the store no longer knows the lease. Stop the
	// guarded work; its last acts may have overlapped with the next holder's
	// unless the resource checks the token.
	ErrLost = errors.New("lease lost")

	// ErrReleased is the end of a tenure by Release or by Leaser.Close.
	ErrReleased = errors.New("lease released")

	// ErrHeld says that a claim has to wait. Each HeldError wraps it.
	ErrHeld = errors.New("held by another")
	// ErrClosed is returned by a Leaser after Close.
	ErrClosed = errors.New("leaser is closed; open a new one")

	// ErrClaim is a claim that no engine can serve, or not this one.
	ErrClaim = errors.New("bad claim")

	// ErrUnavailable says that the store could not be reached, or did not answer in
	// time. It may have done what it was asked for all the same.
	ErrUnavailable = errors.New("the store cannot be reached or does not answer")

	// ErrTTLTooShort is a TTL that leaves no time to renew over the round trip
	// to the store.
	ErrTTLTooShort = errors.New("TTL too short for the round trip to the store")
)

// HeldError says that a claim has to wait. TryAcquire returns it, and Acquire
// when its context ends first; it then wraps the context's error too.
type HeldError struct {
	Name   string    // of the resource
	Holder string    // one of the holders
	Until  time.Time // when that tenure ends unless renewed; zero if unknown
}

// Unwrap returns ErrHeld.
func (HeldError) Unwrap() error { return ErrHeld }

func (e HeldError) Error() string {
	if e.Until.IsZero() {
		return fmt.Sprintf("%q is held by %s", e.Name, e.Holder)
	}
	return fmt.Sprintf("%q is held by %s until %s unless renewed", e.Name, e.Holder, e.Until.Format(time.RFC3339Nano))
}
