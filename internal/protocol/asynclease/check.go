package asynclease

import (
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

// ErrImpossible says that a message is none that a member sends which runs the same program.
var ErrImpossible = errors.New("the message is impossible")

// Check says why a message of a member cannot be meant as it is, with ErrImpossible. The
// machine drops such a one; its owner should tell somebody, for it is no matter of the
// network.
func Check(e machine.Envelope) error {
	var r Request
	owner := e.From
	switch b := e.Body.(type) {
	case Lease:
		r = b.Request
		if err := b.Interval.check(); err != nil {
			return fmt.Errorf("%w: request %v: %w", ErrImpossible, r, err)
		}
		if b.Open > r.Seq {
			return fmt.Errorf("%w: request %v says that all before %d are over", ErrImpossible, r, b.Open)
		}
	case Give:
		r = b.Request
		if b.From == 0 {
			return fmt.Errorf("%w: request %v gives back %w: [0,...]", ErrImpossible, r, ErrInterval)
		}
	case Ack:
		r, owner = b.Request, e.To
	case Nack:
		r, owner = b.Request, e.To
	default:
		return fmt.Errorf("%w: %T is not a message of package asynclease", ErrImpossible, b)
	}
	if r.Node != owner || r.Seq == 0 {
		return fmt.Errorf("%w: a %T from member %d to %d about request %v", ErrImpossible, e.Body, e.From, e.To, r)
	}
	return nil
}
