package register

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Store is one place that keeps registers by name and may fail as a whole: a directory, a
// device, a server. To survive the loss of some stores, use several with package
// quorumregister above them.
type Store interface {
	// Header returns the header, on which all users of the store have to agree.
	Header() Header
	// Do performs operations together, so that those for many registers may share
	// an I/O, and returns a reply for each. It is called by one goroutine at a time
	// and takes as long as the medium does, for ever if that hangs.
	Do([]Op) []Reply
	// Names lists the names that have a register with data, in order. It may run beside Do.
	Names() ([]string, error)
	// Close frees the store's resources in this process. It is called when no Do is running, or
	// when one hangs that nobody waits for any more.
	Close() error
}

// Op is an operation on the register of a name.
type Op struct {
	Name string
	// Writer is whose claim asks. A store may keep a place of its own for each
	// writer of each name; a writer has one operation at a time that changes it.
	Writer machine.ID
	// Op is a quorumregister.Query, Put or PutNote, or Enter or Leave.
	Op any
}

// Enter is the operation that says that the writer is about to write this name. It changes
// nothing that the register shows. After a success the store is ready: slow first steps,
// such as making a file or connecting to a server, are done.
type Enter struct{}

// Leave is the operation that says that the writer will not write this name again. The store may
// reuse the writer's place once Obsolete reports that nobody needs its record.
type Leave struct{}

// Reply is the outcome of an Op.
type Reply struct {
	Value any   // a quorumregister.State for a Query
	Err   error // wraps ErrDamaged, ErrGone, or the medium's own error
}

// Header is fixed when a store is made.
type Header struct {
	Set   machine.ID    // names the set of stores that belong together
	Of    int           // how many stores the set has
	Index int           // which one this is, from 0
	Term  time.Duration // Δ: how long a lease lasts without renewal
	Delay time.Duration // δ to begin with: bounds an access to a whole register
	Drift int           // ρ: parts per million by which clocks may differ in rate from true time
}

// MaxDrift is the greatest Drift, for which the tenth in Quiet suffices.
const MaxDrift = 40_000

// Check returns an error that says which field makes no sense.
func (h Header) Check() error {
	switch {
	case h.Set == machine.ID{}:
		return errors.New("a store's set needs an identity")
	case h.Of < 1 || h.Index < 0 || h.Index >= h.Of:
		return fmt.Errorf("store %d of %d does not exist: they count from 0", h.Index, h.Of)
	case h.Term <= 0 || h.Delay <= 0:
		return fmt.Errorf("term %v and delay %v have to be positive", h.Term, h.Delay)
	case h.Drift < 0 || h.Drift > MaxDrift:
		return fmt.Errorf("a drift of %d parts per million is out of range: at most %d", h.Drift, MaxDrift)
	}
	return nil
}

// Quiet is how long a claim may go without a sign of life and still hold something. It is
// Δ+6δ for the greatest δ that a lease may adapt to, a twelfth of Δ, and a tenth more for
// clocks.
func (h Header) Quiet() time.Duration {
	return (h.Term + 6*max(h.Delay, h.Term/12)) / 10 * 11
}
