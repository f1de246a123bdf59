package machine

import (
	"bytes"
	"encoding/hex"
)

// ID names a writer of registers. It is a random number, made anew for each claim and each
// life of a process and never used again, so that no writer takes an earlier life's record
// for its own.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Compare orders IDs, to break ties.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// Access asks for one operation on shared storage. The driver performs it
// without holding up the machine and calls Accessed when it is done. One that
// hangs is never answered.
type Access struct {
	// ID is the machine's, and comes back in Accessed.
	ID uint64
	// At is which of the machine's stores is meant, from 0.
	At int
	// Op is Read, Write or Note for a register, or what else the store knows.
	Op any
}

// Accessed is the end of an Access.
type Accessed struct {
	ID uint64
	// Reply depends on the Op.
	Reply any
	// Err says that the operation failed. A failed write may have taken effect,
	// and may yet take effect at any later time.
	Err error
}

// Read is the Op that reads a register, notes included. The reply is a Value.
type Read struct{}

// Write is the Op that writes a register. The reply is the Version under which it
// did.
type Write struct {
	Data []byte
	// Seq is 0 for a version that is greater than that of every write which was
	// complete before this one began; that costs a look at the register first. Else
	// it is the Seq to write under, usually the Next of a Value read before: if the
	// register has gone on since, the write loses, and only a read can tell.
	Seq uint64
}

// Note is the Op that sets the note that this writer alone keeps beside a register.
// It replaces the writer's note before. The reply is nil.
type Note struct{ Data []byte }

// Value is what a register shows. No holder of it may change Data.
type Value struct {
	Version Version // zero if the register was never written, or is forgotten
	Data    []byte
	Next    uint64  // the least Seq that a write after this one may have; 0 if there is none
	Notes   []Noted // by writer, ascending; notes that are long out of use may be missing
}

// Noted is a writer's note.
type Noted struct {
	Writer ID
	Data   []byte
}

// Version orders the writes of a register: by Seq, ties by Writer. A Seq is a fencing
// token: a register never shows a smaller one again, even if stuck writes land late.
type Version struct {
	Seq    uint64
	Writer ID
}

// Compare orders versions.
func (v Version) Compare(o Version) int {
	switch {
	case v.Seq < o.Seq:
		return -1
	case v.Seq > o.Seq:
		return 1
	}
	return v.Writer.Compare(o.Writer)
}
