package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// electorate has the members that count for read leases.
type electorate struct {
	// memberships are those that count (R23); voters and learners are those of the newest, by
	// the log; everyone lists the members of all of them.
	memberships                quorumlease.Memberships
	voters, learners, everyone []machine.NodeID
}

// follow notes the memberships that count from now on, and reports whether they have changed.
func (e *electorate) follow(members quorumlease.Memberships) bool {
	if slices.EqualFunc(members, e.memberships, quorumlease.Membership.Equal) {
		return false
	}
	e.memberships, e.everyone = members, members.Everyone()
	e.voters, e.learners = members.Newest().Voters, members.Newest().Learners
	return true
}

// votes reports whether a member is a voter.
func (e *electorate) votes(id machine.NodeID) bool { return slices.Contains(e.voters, id) }

// once returns the memberships that count once the log is released up to an index; fewer
// reports whether some count no more.
func (e *electorate) once(released uint64) (now quorumlease.Memberships, fewer bool) {
	now = e.memberships.Released(released)
	return now, len(now) != len(e.memberships)
}
