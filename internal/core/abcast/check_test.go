package abcast_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A state that another member sends is one that the group may be in. One that is at a limit
// is, and one that is beyond it is not.
func TestBasesThatCannotBe(t *testing.T) {
	many := func(n int) (members []abcast.Member) {
		for id := range n {
			members = append(members, abcast.Member{ID: machine.NodeID(id + 1)})
		}
		return members
	}
	clients := func(positions ...uint64) (list []abcast.Session) {
		for n, position := range positions {
			list = append(list, abcast.Session{Client: machine.ID{byte(n)}, Upto: 1, Position: position})
		}
		return list
	}
	for name, c := range map[string]struct {
		change func(b *abcast.Base)
		ok     bool
	}{
		"as it is":                        {func(b *abcast.Base) {}, true},
		"other clients":                   {func(b *abcast.Base) { b.Order.Clients = 4 }, false},
		"as many clients":                 {func(b *abcast.Base) { b.Order.Sessions = clients(3, 8, 10) }, true},
		"too many clients":                {func(b *abcast.Base) { b.Order.Sessions = clients(3, 8, 9, 10) }, false},
		"the first epoch":                 {func(b *abcast.Base) { b.Order.Group.First = 1 }, true},
		"an epoch from nothing on":        {func(b *abcast.Base) { b.Order.Group.First, b.Order.Instance = 0, 1<<64-1 }, false},
		"an epoch that is next":           {func(b *abcast.Base) { b.Order.Group.First = 8 }, true},
		"an epoch to come":                {func(b *abcast.Base) { b.Order.Group.First = 9 }, false},
		"nobody":                          {func(b *abcast.Base) { b.Order.Group.Members = nil }, false},
		"as many members":                 {func(b *abcast.Base) { b.Order.Group.Members, b.Order.Group.Removed = many(abcast.MembersMax), nil }, true},
		"too many members":                {func(b *abcast.Base) { b.Order.Group.Members, b.Order.Group.Removed = many(abcast.MembersMax+1), nil }, false},
		"members out of order":            {func(b *abcast.Base) { slices.Reverse(b.Order.Group.Members) }, false},
		"a member twice":                  {func(b *abcast.Base) { b.Order.Group.Members[1].ID = 1 }, false},
		"a member 0":                      {func(b *abcast.Base) { b.Order.Group.Members[0].ID, b.Order.Group.Configured = 0, nil }, false},
		"removed ones out of order":       {func(b *abcast.Base) { slices.Reverse(b.Order.Group.Removed) }, false},
		"a member that was removed":       {func(b *abcast.Base) { b.Order.Group.Members[1].ID = 7 }, false},
		"a founder that nobody was":       {func(b *abcast.Base) { b.Order.Group.Configured = []machine.NodeID{5} }, false},
		"a founder that left":             {func(b *abcast.Base) { b.Order.Group.Configured = []machine.NodeID{7} }, true},
		"further than what it led to":     {func(b *abcast.Base) { b.Position = 9 }, false},
		"less far than what it led to":    {func(b *abcast.Base) { b.Position = 11 }, true},
		"all clients forgotten":           {func(b *abcast.Base) { b.Order.Horizon = 10 }, true},
		"clients forgotten that come":     {func(b *abcast.Base) { b.Order.Horizon = 11 }, false},
		"a client without a message":      {func(b *abcast.Base) { b.Order.Sessions[0].Upto = 0 }, false},
		"a client at no position":         {func(b *abcast.Base) { b.Order.Sessions[0].Position = 0 }, false},
		"clients out of order":            {func(b *abcast.Base) { b.Order.Sessions = clients(8, 3) }, false},
		"clients at one position":         {func(b *abcast.Base) { b.Order.Sessions = clients(3, 3) }, false},
		"a client at a position to come":  {func(b *abcast.Base) { b.Order.Sessions = clients(3, 11) }, false},
		"nobody was ever ordered or gone": {func(b *abcast.Base) { b.Order.Sessions, b.Order.Group.Removed = nil, nil }, true},
	} {
		b := abcast.Base{Position: 10, Order: abcast.State{
			Instance: 7, Position: 10, Clients: 3, Sessions: clients(3, 8),
			Group: abcast.Group{First: 4, Members: many(2), Removed: []abcast.Member{{ID: 7}, {ID: 9}}, Configured: []machine.NodeID{1}},
		}}
		c.change(&b)
		if err := b.Check(3); (err == nil) != c.ok || err != nil && !errors.Is(err, abcast.ErrImpossible) {
			t.Errorf("%s: %v, sound is to be %v", name, err, c.ok)
		}
	}
	none := abcast.Base{Order: abcast.State{Group: abcast.Group{First: 1, Members: many(1)}}}
	if err := none.Check(0); !errors.Is(err, abcast.ErrImpossible) {
		t.Errorf("of a group that remembers nobody: %v", err)
	}
}
