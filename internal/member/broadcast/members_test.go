package broadcast_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// join starts a process that is to become a member, and returns where it listens.
func (g *group) join(id machine.NodeID) string {
	g.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	g.members = maps.Clone(g.members)
	g.members[id], g.dirs[id] = ln.Addr().String(), g.t.TempDir()
	before := g.change
	g.change = func(c *broadcast.Config) { c.Join = true }
	g.start(id, ln)
	g.change = before
	return g.members[id]
}

func ids(members map[machine.NodeID]string) []machine.NodeID {
	return slices.Sorted(maps.Keys(members))
}

func TestMembersComeAndGo(t *testing.T) {
	g := newGroup(t, 3)
	founders := g.members
	for i := range 5 {
		g.broadcast(1, fmt.Sprint(i))
	}
	g.trim(1, 3)
	addr := g.join(4)
	if _, err := g.nodes[4].Broadcast(soon(t), nil); !errors.Is(err, broadcast.ErrNotMember) {
		t.Errorf("one that is no member yet broadcasts: got %v, want ErrNotMember", err)
	}
	if p, err := g.nodes[2].AddMember(soon(t), 4, addr); err != nil || p != 6 {
		t.Fatalf("AddMember: position %d, %v; want 6", p, err)
	}
	if err := g.nodes[4].Joined(soon(t)); err != nil {
		t.Fatal(err)
	}
	if p := g.broadcast(4, "from 4"); p != 7 {
		t.Errorf("member 4's first message is at %d, want 7", p)
	}
	for m, err := range g.nodes[4].Deliver(soon(t), 6) {
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(m.Members); m.Position == 6 && !slices.Equal(got, []machine.NodeID{1, 2, 3, 4}) {
			t.Errorf("position 6 has members %v, want 1 to 4", got)
		}
		if m.Position == 7 {
			break
		}
	}

	leader := g.nodes[4].Leader()
	if _, err := g.nodes[4].RemoveMember(soon(t), leader); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range g.nodes[leader].Deliver(soon(t), g.nodes[leader].Position()+1) {
		last = err
	}
	if !errors.Is(last, broadcast.ErrRemoved) {
		t.Errorf("one that was removed delivers until %v, want ErrRemoved", last)
	}
	if _, err := g.nodes[leader].Broadcast(soon(t), nil); !errors.Is(err, broadcast.ErrRemoved) {
		t.Errorf("one that was removed broadcasts: got %v, want ErrRemoved", err)
	}
	g.stop(leader)
	if _, err := g.nodes[4].AddMember(soon(t), leader, "127.0.0.1:1"); !errors.Is(err, broadcast.ErrChange) {
		t.Errorf("an ID that was removed returns: got %v, want ErrChange", err)
	}

	// All have the same after a restart, with the flags of the first one.
	g.broadcast(4, "last")
	rest := ids(g.nodes[4].Members())
	if len(rest) != 3 || slices.Contains(rest, leader) {
		t.Fatalf("the members are %v, and should be three without %d", rest, leader)
	}
	position := g.nodes[4].Position()
	for _, id := range rest {
		g.delivered(id, position, 1)
		g.stop(id)
	}
	all := g.members
	g.members = maps.Clone(founders)
	g.members[4] = all[4]
	for _, id := range rest {
		g.start(id, nil)
	}
	if p := g.broadcast(4, "after"); p != position+1 {
		t.Errorf("the next position is %d, want %d", p, position+1)
	}
	for _, id := range rest {
		if got := g.delivered(id, position, 2); got[0] != "last" || got[1] != "after" {
			t.Errorf("member %d has %q", id, got)
		}
	}
}

// A group of one moves to another process, which is then alone with all that was ordered.
func TestOneReplacesAnother(t *testing.T) {
	g := newGroup(t, 1)
	g.broadcast(1, "x")
	addr := g.join(2)
	if _, err := g.nodes[1].ReplaceMember(soon(t), 1, 2, addr); err != nil {
		t.Fatal(err)
	}
	if err := g.nodes[2].Joined(soon(t)); err != nil {
		t.Fatal(err)
	}
	for range g.nodes[1].Deliver(soon(t), 3) { // until it is not needed any more
	}
	if err := soon(t).Err(); err != nil {
		t.Fatal(err)
	}
	g.stop(1)
	g.broadcast(2, "y")
	if got := g.delivered(2, 1, 3); got[0] != "x" || got[1] != "" || got[2] != "y" {
		t.Errorf("got %q", got)
	}
	g.stop(2)
	g.start(2, nil)
	if got := g.delivered(2, 1, 3); got[0] != "x" || got[2] != "y" {
		t.Errorf("after a restart: %q", got)
	}
}

// A member that is removed while it is away learns of it when it comes back.
func TestRemovedWhileAway(t *testing.T) {
	g := newGroup(t, 3)
	g.broadcast(1, "x")
	g.delivered(3, 1, 1)
	g.stop(3)
	if _, err := g.nodes[1].RemoveMember(soon(t), 3); err != nil {
		t.Fatal(err)
	}
	g.broadcast(2, "y")
	g.start(3, nil)
	var last error
	for _, err := range g.nodes[3].Deliver(soon(t), 1) {
		last = err
	}
	if !errors.Is(last, broadcast.ErrRemoved) {
		t.Errorf("got %v, want ErrRemoved", last)
	}
}

func TestRemovesItself(t *testing.T) {
	g := newGroup(t, 2)
	g.broadcast(1, "x")
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	if p, err := g.nodes[1].RemoveMember(ctx, 1); err != nil || p != 2 {
		t.Errorf("position %d, %v; want 2", p, err)
	}
	g.stop(1)
	g.broadcast(2, "y")
	if got := g.delivered(2, 1, 3); got[2] != "y" {
		t.Errorf("got %q", got)
	}
}

// The members that Config.Members names count at the first start. A founder may be away while
// others take the places of all members that it knew. It is started with the new ones, or with
// none, and goes on.
func TestMembersOfALogThatIsThere(t *testing.T) {
	g := newGroup(t, 3)
	g.broadcast(1, "1")
	g.delivered(3, 1, 1)
	g.stop(3)
	for old := machine.NodeID(1); old <= 2; old++ {
		id := old + 3
		addr := g.join(id)
		if _, err := g.nodes[old].ReplaceMember(soon(t), old, id, addr); err != nil {
			t.Fatal(err)
		}
		if err := g.nodes[id].Joined(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	g.broadcast(4, "4")
	for id := machine.NodeID(1); id <= 2; id++ {
		for range g.nodes[id].Deliver(soon(t), 5) { // until it is not needed any more
		}
		g.stop(id)
		delete(g.members, id)
	}
	g.start(3, nil)
	if p := g.broadcast(3, "5"); p != 5 {
		t.Errorf("the next position is %d, want 5", p)
	}
	g.stop(3)
	before := g.change
	g.change = func(c *broadcast.Config) { c.Members = nil }
	g.start(3, nil)
	g.change = before
	g.broadcast(3, "6")
	for id := range g.nodes {
		if got := g.delivered(id, 1, 6); got[0] != "1" || !slices.Equal(got[3:], []string{"4", "5", "6"}) {
			t.Errorf("member %d has %q", id, got)
		}
		if got := ids(g.nodes[id].Members()); !slices.Equal(got, []machine.NodeID{3, 4, 5}) {
			t.Errorf("member %d has members %v, want 3 to 5", id, got)
		}
	}
}

// Founders may have the same place spelled in different ways. One that is behind goes on from
// another one's state, and finds the others where its own configuration has them.
func TestAddressesSpelledOtherwise(t *testing.T) {
	g := newGroupOf(t, 3, func(c *broadcast.Config) {
		if c.ID == 3 {
			c.Members = maps.Clone(c.Members)
			c.Members[3] = strings.Replace(c.Members[3], "127.0.0.1", "localhost", 1)
		}
	})
	g.broadcast(1, "1")
	g.delivered(3, 1, 1)
	g.stop(3)
	for i := range 20 {
		g.broadcast(1, fmt.Sprint(i+2))
	}
	for id := machine.NodeID(1); id <= 2; id++ {
		g.delivered(id, 1, 21)
		g.trim(id, 20)
	}
	g.start(3, nil)
	if got := g.delivered(3, 21, 1); got[0] != "21" {
		t.Errorf("got %q", got)
	}
	if got := g.nodes[3].Members()[3]; !strings.HasPrefix(got, "localhost:") {
		t.Errorf("member 3 is at %s in its own eyes, and not where its configuration said", got)
	}
}

// The order does not know the address of a founder that no change has named. So the member that
// is asked to put another one there refuses.
func TestWhereAFounderIs(t *testing.T) {
	g := newGroup(t, 2)
	if _, err := g.nodes[1].AddMember(soon(t), 4, g.members[2]); !errors.Is(err, broadcast.ErrChange) {
		t.Errorf("got %v, want ErrChange", err)
	}
	if p, err := g.nodes[1].AddMember(soon(t), 2, g.members[2]); err != nil || p != 1 {
		t.Errorf("to say where it is: got position %d, %v; want 1", p, err)
	}
	if p, err := g.nodes[1].AddMember(soon(t), 4, g.members[2]); !errors.Is(err, broadcast.ErrChange) {
		t.Errorf("where another was named: got %d, %v, want ErrChange", p, err)
	}
	if got := ids(g.nodes[1].Members()); !slices.Equal(got, []machine.NodeID{1, 2}) {
		t.Errorf("the members are %v", got)
	}
}
