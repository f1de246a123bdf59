package register

import "errors"

// Limits that every store accepts.
const (
	MaxName = 512  // bytes of a name
	MaxData = 2800 // bytes of data in a register
	MaxNote = 640  // bytes of a note
)

var (
	// ErrDamaged is a store, or a part of one, that cannot be read as it was written.
	// It is never taken for a register that nobody has written.
	ErrDamaged = errors.New("damaged")
	// ErrGone is a store that has lost writes, or one that this process may no longer write.
	ErrGone = errors.New("gone")
	// ErrForeign is something in the store's place that is not ours. It was not touched.
	ErrForeign = errors.New("not a store of Tenure's")
	// ErrNewer is a store made by a newer version of this program.
	ErrNewer = errors.New("made by a newer version of Tenure")
	// ErrMismatch is a store with another header than the expected one.
	ErrMismatch = errors.New("another store than expected")
	// ErrTooLong is a name, data or a note of more bytes than every store takes.
	ErrTooLong = errors.New("too long")
)

// ChoiceError is an error about what a caller has asked for, and not about the stores: nothing was done.
type ChoiceError struct{ error }

// Choice marks an error as a ChoiceError.
func Choice(err error) error { return ChoiceError{err} }

func (e ChoiceError) Unwrap() error { return e.error }
