package abcast

import (
	"errors"
	"fmt"
)

// ErrImpossible says that a message is none that a member sends which runs the same program.
var ErrImpossible = errors.New("the message is impossible")

// Check says why the Base of a Transfer cannot be meant as it is, with ErrImpossible, in a
// group that remembers so many clients. The machine drops such a one, and says that it was
// Impossible.
func (b Base) Check(clients int) error {
	s := b.Order
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: a state after instance %d "+format, append([]any{ErrImpossible, s.Instance}, args...)...)
	}
	switch {
	case s.Clients != clients || clients < 1:
		return bad("of a group that remembers %d clients, and this one does %d", s.Clients, clients)
	case len(s.Sessions) > clients:
		return bad("with %d clients of %d", len(s.Sessions), clients)
	case s.Group.First == 0 || s.Group.First-1 > s.Instance:
		return bad("with an epoch from instance %d on", s.Group.First)
	case len(s.Group.Members) == 0 || len(s.Group.Members) > MembersMax || !ascending(s.Group.Members) || !ascending(s.Group.Removed):
		return bad("with members %v and, once, %v", s.Group.Members, s.Group.Removed)
	case s.Position > b.Position || s.Horizon > s.Position:
		return bad("at position %d, with clients forgotten up to %d, of a client that has all up to %d", s.Position, s.Horizon, b.Position)
	}
	for _, m := range s.Group.Members {
		if s.Group.Gone(m.ID) {
			return bad("with member %d, which was removed", m.ID)
		}
	}
	for _, id := range s.Group.Configured {
		if !s.Group.Has(id) && !s.Group.Gone(id) {
			return bad("with a founder, %d, which is not one of %v and, earlier, %v", id, s.Group.Members, s.Group.Removed)
		}
	}
	last := uint64(0)
	for _, x := range s.Sessions {
		if x.Upto == 0 || x.Position <= last || x.Position > s.Position {
			return bad("with message %d of a client at position %d, behind another's at %d", x.Upto, x.Position, last)
		}
		last = x.Position
	}
	return nil
}

// ascending reports whether members are in order, nobody twice, and none without an ID.
func ascending(members []Member) bool {
	for i, m := range members {
		if m.ID == 0 || i > 0 && m.ID <= members[i-1].ID {
			return false
		}
	}
	return true
}
