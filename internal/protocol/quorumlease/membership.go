package quorumlease

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Membership lists the members behind an entry of the log.
type Membership struct {
	Index            uint64 // of the entry that made it so
	Voters, Learners []machine.NodeID
}

// Has reports whether id is a member.
func (m Membership) Has(id machine.NodeID) bool {
	return slices.Contains(m.Voters, id) || slices.Contains(m.Learners, id)
}

// Equal reports whether two are the same. Entries of different logs may have the same
// index.
func (m Membership) Equal(o Membership) bool {
	return m.Index == o.Index && slices.Equal(m.Voters, o.Voters) && slices.Equal(m.Learners, o.Learners)
}

// Memberships are those that count for a member's log: the one at its end and, until
// the entry of that is known to be released, the one before. There are never more, for
// nobody proposes a change before the last one is released (R23). A value is never
// changed, only replaced; the empty one knows of nobody.
type Memberships []Membership

// Newest returns the membership at the end of the log, committed or not.
func (ms Memberships) Newest() Membership {
	if len(ms) == 0 {
		return Membership{}
	}
	return ms[len(ms)-1]
}

// With returns the memberships that count once the log has another change. The change
// before it is released by then.
func (ms Memberships) With(m Membership) Memberships {
	return append(slices.Clone(ms[max(0, len(ms)-1):]), m)
}

// Cut returns the memberships that count after entries from an index on were replaced.
func (ms Memberships) Cut(from uint64) Memberships {
	for len(ms) > 1 && ms.Newest().Index >= from {
		ms = ms[:len(ms)-1]
	}
	return ms
}

// Released returns the memberships that count once everything up to an index is committed
// and released.
func (ms Memberships) Released(index uint64) Memberships {
	for len(ms) > 1 && ms[1].Index <= index {
		ms = ms[1:]
	}
	return ms
}

// Everyone lists all members, those at the end of the log first.
func (ms Memberships) Everyone() []machine.NodeID {
	var all []machine.NodeID
	for _, m := range slices.Backward(ms) {
		for _, id := range slices.Concat(m.Voters, m.Learners) {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}
