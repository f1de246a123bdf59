package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// electorate is the set of members that counts for read leases.
type electorate struct {
	// memberships are those that count (R23); voters and learners are the newest's, by
	// the log, and everyone is the members of any.
	memberships                quorumlease.Memberships
	voters, learners, everyone []machine.NodeID
}

// follow takes note of the memberships that count from now on, and reports whether they are
// others.
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

// once returns the memberships that count once the log is released up to an index; fewer says
// that some count no more.
func (e *electorate) once(released uint64) (now quorumlease.Memberships, fewer bool) {
	now = e.memberships.Released(released)
	return now, len(now) != len(e.memberships)
}
