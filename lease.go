package tenure

import (
	"context"
	"time"
)

// Lease is what a holder has in hand. Its methods may be called from any
// goroutine. A lease renews itself until it is released or lost.
type Lease interface {
	// Name of the resource that is held.
	Name() string
	// Holder is the claim's Holder.
	Holder() string
	// Token is the fencing token: greater than that of every earlier tenure of
	// this name, and greater than zero. Give it to the resource with every write.
	Token() uint64
	// Deadline is when the tenure ends unless a renewal succeeds before. It
	// counts from when the last successful renewal was sent. It is computed
	// at the time of the call from a clock that counts suspend: ask again
	// instead of keeping it, and use Check to decide.
	Deadline() time.Time
	// Done is closed when the tenure ends, before another holder may start.
	Done() <-chan struct{}
	// Context ends when the tenure does, with a cause that is Err. It has neither a deadline nor values.
	Context() context.Context
	// Err is nil until Done is closed, and afterwards wraps ErrReleased or
	// ErrLost and says why.
	Err() error
	// Check reads the clock and returns nil if the lease is held at this
	// moment, else what Err returns. It needs no round trip. It is exact where
	// Done, which a goroutine has to close, may come a moment later.
	Check() error
	// Release ends the tenure, so that the next holder need not wait for the deadline. Call
	// it after the guarded work has returned. It can never free a newer holder's lease. To
	// release twice is no error. It returns an error that wraps ErrLost if the tenure had
	// ended before, so that the work may have overlapped with another's. It returns the
	// store's error if the release was not confirmed; then the lease ends by itself at its
	// deadline.
	Release(ctx context.Context) error
}

// Leaser is what an engine offers. Its methods may be called from any goroutine.
type Leaser interface {
	// Acquire waits until the claim is admitted or ctx is done. Trouble in
	// reaching the store is waited out, too. When ctx ends first the error wraps
	// its error, and HeldError where the holder could be seen, or ErrUnavailable
	// where the store did not answer. ctx does not bound the tenure.
	Acquire(ctx context.Context, c Claim) (Lease, error)
	// TryAcquire does not wait: it returns a HeldError if the claim cannot be
	// admitted at once, and an error that wraps ErrUnavailable if the store does not
	// answer.
	TryAcquire(ctx context.Context, c Claim) (Lease, error)
	// Observe returns the holders of the name and their deadlines, without contending.
	Observe(ctx context.Context, name string) (State, error)
	// Close releases all leases of this Leaser, ends its waiting Acquires with
	// ErrClosed and frees its resources. Closing twice is no error.
	Close() error
}

// Lister is a Leaser that can tell which names are held.
type Lister interface {
	// List returns the names with the prefix that are held or waited for, in
	// order.
	List(ctx context.Context, prefix string) ([]string, error)
}

// State is what an observer sees of a name.
type State struct {
	Name    string    `json:"name"`
	Holders []Holding `json:"holders"` // in order of arrival; empty if the name is free
	Waiting int       `json:"waiting"` // how many wait, as far as the engine can tell
}

// Holding is one tenure as an observer sees it. By the time it is looked at it
// may be history.
type Holding struct {
	Holder string    `json:"holder"`
	Token  uint64    `json:"token"`
	Slots  int       `json:"slots"` // of the holder's claim: 1 is exclusive
	Until  time.Time `json:"until"` // when it ends unless renewed; zero if unknown
}
