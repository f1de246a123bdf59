package abcast

import (
	"encoding/binary"

	"github.com/tenure-lease/tenure/internal/machine"
)

// NewClient returns a client's ID: the position up to which a member has delivered when
// it is made, and a random number.
//
// The position is what makes forgetting safe. Messages of the client come behind it: the
// instances up to there were decided before the ID was made. So once the client's session
// is dropped, State.Horizon is beyond the position in its ID, and stays so.
func NewClient(position, random uint64) (id machine.ID) {
	binary.BigEndian.PutUint64(id[:8], position)
	binary.BigEndian.PutUint64(id[8:], random)
	return id
}

// born is the position that a client's ID was made at.
func born(id machine.ID) uint64 { return binary.BigEndian.Uint64(id[:8]) }
