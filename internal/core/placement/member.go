package placement

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// maxMembers is how many members a group may have.
const maxMembers = 64

// Member is one replica of the group.
type Member struct {
	ID machine.NodeID
	// Name is what people call it, in the text of a static configuration.
	Name string
	// Learner says that it has no vote. It may hold leases all the same.
	Learner bool
}

// Set is a set of members: bit i stands for the i-th of a list of members, usually
// that of a Configuration.
type Set uint64

// SetOf is the set of the members with these places in the list.
func SetOf(places ...int) (s Set) {
	for _, i := range places {
		s |= 1 << i
	}
	return s
}

// Has reports whether the i-th member is in the set.
func (s Set) Has(i int) bool { return s>>i&1 == 1 }

// Len is the number of members in the set.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// first is the set of the first n members.
func first(n int) Set { return 1<<n - 1 } // n is 64 at most, and then the shift gives 0

// place finds a member in an ascending list, or gives -1.
func place(members []machine.NodeID, id machine.NodeID) int {
	if i, ok := slices.BinarySearch(members, id); ok {
		return i
	}
	return -1
}

// checkMembers refuses a list that does not give each Set one meaning.
func checkMembers(members []machine.NodeID) error {
	if len(members) == 0 || len(members) > maxMembers {
		return fmt.Errorf("%w: %d members, from 1 to %d will do", ErrConfiguration, len(members), maxMembers)
	}
	for i, id := range members {
		if id == 0 {
			return fmt.Errorf("%w: 0 is no member's ID", ErrConfiguration)
		}
		if i > 0 && members[i-1] >= id {
			return fmt.Errorf("%w: list members in ascending order and once each, %d comes after %d", ErrConfiguration, id, members[i-1])
		}
	}
	return nil
}

// identities are the IDs of members, ascending.
func identities(members []Member) []machine.NodeID {
	ids := make([]machine.NodeID, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	slices.Sort(ids)
	return ids
}
