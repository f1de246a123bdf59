package quorumregister

import "github.com/tenure-lease/tenure/internal/machine"

// Query is the operation that asks a base for what it holds of the register. The
// reply is a State.
type Query struct{}

// Put has a base hold data under a version, unless it holds a later one. The reply
// is nil. Until it is answered a base may show either.
type Put struct {
	Version machine.Version
	Data    []byte
}

// PutNote has a base hold a writer's note, unless it holds a later one of the same writer.
// The reply is nil.
type PutNote struct {
	Writer machine.ID
	Seq    uint64
	Data   []byte
}

// State is what a base holds of a register.
type State struct {
	Version machine.Version // of Data; zero if there is none
	Data    []byte
	Notes   []Note // one a writer, in any order
	// Floor is a Seq that a new version has to exceed, beside Version.Seq: a base
	// that forgets old registers has not forgotten how far their tokens went.
	Floor uint64
}

// Note is a writer's note; of two the one with the greater Seq is newer.
type Note struct {
	Writer machine.ID
	Seq    uint64
	Data   []byte
}
