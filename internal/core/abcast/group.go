package abcast

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

// Member is one of a group, and where it can be reached: of that this package knows
// nothing.
type Member struct {
	ID      machine.NodeID
	Address string
}

// Group is the members that order the messages of the instances from First on: an epoch.
type Group struct {
	First   uint64   // 1 for the founders
	Members []Member // by ID
	Removed []Member // by ID; none of them ever comes back
	// Configured are the founders whose Address no Change has named. Each member has those
	// addresses from its own configuration: nothing that is ordered may depend on them.
	Configured []machine.NodeID
}

// MembersMax is how many members a group may have.
const MembersMax = 31

// ErrChange says that a change of the members makes no sense where it was ordered, and
// has changed nothing.
var ErrChange = errors.New("the members cannot be changed like this")

func find(members []Member, id machine.NodeID) (int, bool) {
	return slices.BinarySearchFunc(members, id, func(m Member, id machine.NodeID) int { return cmp.Compare(m.ID, id) })
}

// Has reports whether somebody is a member.
func (g Group) Has(id machine.NodeID) bool { _, ok := find(g.Members, id); return ok }

// Gone reports whether somebody was removed.
func (g Group) Gone(id machine.NodeID) bool { _, ok := find(g.Removed, id); return ok }

// IDs returns the members' IDs, ascending.
func (g Group) IDs() (ids []machine.NodeID) {
	for _, m := range g.Members {
		ids = append(ids, m.ID)
	}
	return ids
}

// configured reports whether somebody's address is not the same at all members.
func (g Group) configured(id machine.NodeID) bool { return slices.Contains(g.Configured, id) }

// reached returns g with the addresses that are configured here in place of those of the
// member that sent it. An address that reaches a founder from there may not do so from
// here.
func (g Group) reached(here Group) Group {
	reach := func(list []Member) []Member {
		list = slices.Clone(list)
		for i, m := range list {
			for _, own := range [][]Member{here.Members, here.Removed} {
				if k, there := find(own, m.ID); there && own[k].Address != "" && g.configured(m.ID) {
					list[i] = own[k]
				}
			}
		}
		return list
	}
	g.Members, g.Removed = reach(g.Members), reach(g.Removed)
	return g
}

func (g Group) majority() int { return len(g.Members)/2 + 1 }

// Change is of the members. It may have any number of parts, and is made as a whole.
type Change struct {
	Add    []Member // new ones; a member that is there has moved to the Address
	Remove []machine.NodeID
}

// Payload is the change as it travels in a Message with Change set.
func (c Change) Payload() []byte {
	var w wire.Writer
	w.Count(len(c.Add))
	for _, m := range c.Add {
		w.Uvarint(uint64(m.ID))
		w.Text(m.Address)
	}
	for _, id := range c.Remove {
		w.Uvarint(uint64(id))
	}
	return w
}

func decodeChange(b []byte) (c Change, err error) {
	r := wire.Reader{Rest: b}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		c.Add = append(c.Add, Member{ID: machine.NodeID(r.Uvarint()), Address: r.Text()})
	}
	for len(r.Rest) > 0 {
		c.Remove = append(c.Remove, machine.NodeID(r.Uvarint()))
	}
	if r.Bad {
		return c, fmt.Errorf("%w: it is cut off", ErrChange)
	}
	return c, nil
}

// after returns the group that a change makes, with g's First; changed is false if it is
// the same. All members find the same, independently of what is Configured: to name a
// founder's address for the first time is a change, and the member at an address is looked
// up among the named ones.
func (g Group) after(c Change) (_ Group, changed bool, err error) {
	n := Group{First: g.First, Members: slices.Clone(g.Members), Removed: slices.Clone(g.Removed), Configured: slices.Clone(g.Configured)}
	for _, m := range c.Add {
		i, there := find(n.Members, m.ID)
		switch {
		case m.ID == 0:
			return g, false, fmt.Errorf("%w: 0 is nobody's ID", ErrChange)
		case n.Gone(m.ID):
			return g, false, fmt.Errorf("%w: member %d was removed, and IDs do not return", ErrChange, m.ID)
		case there && n.Members[i] == m && !n.configured(m.ID):
		case there:
			n.Members[i], changed = m, true
			n.Configured = slices.DeleteFunc(n.Configured, func(id machine.NodeID) bool { return id == m.ID })
		default:
			n.Members, changed = slices.Insert(n.Members, i, m), true
		}
	}
	for _, id := range c.Remove {
		if i, there := find(n.Members, id); there {
			k, _ := find(n.Removed, id)
			n.Removed, changed = slices.Insert(n.Removed, k, n.Members[i]), true
			n.Members = slices.Delete(n.Members, i, i+1)
		}
	}
	for _, m := range c.Add {
		same := func(o Member) bool { return o.ID != m.ID && o.Address == m.Address && !n.configured(o.ID) }
		if i := slices.IndexFunc(n.Members, same); i >= 0 && m.Address != "" {
			return g, false, fmt.Errorf("%w: member %d is at %s already, and member %d cannot be there, too", ErrChange, n.Members[i].ID, m.Address, m.ID)
		}
	}
	if len(n.Members) == 0 || len(n.Members) > MembersMax {
		return g, false, fmt.Errorf("%w: %d members would be left, and may be 1 to %d", ErrChange, len(n.Members), MembersMax)
	}
	return n, changed, nil
}
