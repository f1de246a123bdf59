package quorumregister

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config names the bases of a register, and its user here.
type Config struct {
	// Writer is the ID of this writer. No other machine uses it or ever used it, for it
	// makes versions unique.
	Writer machine.ID
	// Bases is n, the number of bases. Any minority of them may fail.
	Bases int
	// Atomic makes reads atomic, else they are regular. One base is atomic either way.
	Atomic bool
	// Quiet is for how long a base is not counted after it was seen to have gone
	// back. For leases: Δ+K, after which nothing that it forgot can still hold.
	Quiet time.Duration
	// Retry is the time from a failed access to the next try within an operation.
	Retry time.Duration
}

// majority is n-t: how many bases every operation needs, so that any two
// operations have one in common.
func (c Config) majority() int { return c.Bases/2 + 1 }

// ErrMinority says that so many bases failed that the others are no majority. The
// operation was given up; a write may have taken effect, and may yet.
var ErrMinority = errors.New("too few stores work")

// errVersion says that a write asked for a Seq under which this writer has tried to
// write before: that write may take effect at any later time, and versions are
// unique. Read the register, and write under its Next.
var errVersion = errors.New("this version was used before; read the register again")

// ErrExhausted says that a base shows the greatest Seq that there is: it is
// damaged, or somebody meddled with it.
var ErrExhausted = errors.New("a store shows a version after which there is none; it is damaged or was tampered with")

// Event is what Over tells of the bases: a Took, Failing, Stale or Counted.
type Event interface{ event() }

func (Took) event()    {}
func (Failing) event() {}
func (Stale) event()   {}
func (Counted) event() {}

// Events.
type (
	// Took tells how long an operation took that succeeded.
	Took struct{ Time time.Duration }
	// Failing says that the accesses to a base fail from now on, or, if Err is nil,
	// that an access has succeeded again. Operations go on while a majority works.
	Failing struct {
		Base int
		Err  error
	}
	// Stale tells that a base shows less than it did before: it was restored from an
	// old copy or lost its memory. It is not counted for a while, see Config.Quiet.
	Stale struct{ Base int }
	// Counted tells that a stale base counts again.
	Counted struct{ Base int }
)

func (c Config) validate() {
	if c.Bases < 1 || c.Retry <= 0 || c.Quiet < 0 || c.Writer == (machine.ID{}) {
		panic(fmt.Sprintf("quorumregister: a register needs bases, a writer and a time between tries: %+v", c))
	}
}
