package driver

import "github.com/tenure-lease/tenure/internal/machine"

// input waits in the queue for its turn.
type input[In any] struct {
	kind     kind
	in       In
	message  machine.Envelope
	accessed *machine.Accessed
	gather   func() (In, bool)
}

// kind says which field of an input is set.
type kind uint8

const (
	steps    kind = iota // in
	receives             // message
	accesses             // accessed
	gathers              // gather, after which the clock is read
	looks                // gather
	wakes                // none
)
