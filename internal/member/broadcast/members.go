package broadcast

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Members returns the members and their addresses, as far as this one has heard. It is empty at
// one that joins, before it has heard anything.
func (n *Node) Members() map[machine.NodeID]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return addresses(n.group.Members)
}

// Joined waits until this node is a member: only one that was started with Config.Join is
// not at once.
func (n *Node) Joined(ctx context.Context) error {
	select {
	case <-n.joined:
		return nil
	case <-n.ctx.Done():
		return n.reason()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AddMember makes another process a member, or says where a member has moved to. The ID is
// one that no member ever had, the address host:port, and no other member's. The process
// may have been started before, with Config.Join, or is started now; until it is there, one
// more of the others has to work for a majority. The position is that of the change. Errors
// are those of Broadcast and ErrChange.
func (n *Node) AddMember(ctx context.Context, id machine.NodeID, addr string) (Position, error) {
	if err := n.checkAddress(id, addr, 0); err != nil {
		return 0, err
	}
	return n.change(ctx, abcast.Change{Add: []abcast.Member{{ID: id, Address: addr}}})
}

// RemoveMember ends a membership for good; of one that is none it does nothing. The member
// that was removed gets ErrRemoved from all that it does, once the others can do without
// it: a process should go on until then. If it is this one, RemoveMember waits for that.
func (n *Node) RemoveMember(ctx context.Context, id machine.NodeID) (Position, error) {
	return n.change(ctx, abcast.Change{Remove: []machine.NodeID{id}})
}

// ReplaceMember is RemoveMember of old and AddMember of id in one, so that no majority of
// another size has to be there between the two.
func (n *Node) ReplaceMember(ctx context.Context, old, id machine.NodeID, addr string) (Position, error) {
	if err := n.checkAddress(id, addr, old); err != nil {
		return 0, err
	}
	return n.change(ctx, abcast.Change{Add: []abcast.Member{{ID: id, Address: addr}}, Remove: []machine.NodeID{old}})
}

// checkAddress refuses a conflict that the order cannot see: the address of a founder that no
// change has named is each member's own knowledge. One of those, at most, is not in the way.
func (n *Node) checkAddress(id machine.NodeID, addr string, but machine.NodeID) error {
	switch _, _, err := net.SplitHostPort(addr); {
	case err != nil:
		return fmt.Errorf("%w: member %d at %q: want host:port", ErrChange, id, addr)
	case n.peers == nil:
		return fmt.Errorf("%w: this member has no Listener, and others could not reach it", ErrChange)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.group.Members {
		if m.Address == addr && m.ID != id && m.ID != but && slices.Contains(n.group.Configured, m.ID) {
			return fmt.Errorf("%w: member %d is at %s already, and member %d cannot be there, too", ErrChange, m.ID, addr, id)
		}
	}
	return nil
}

func (n *Node) change(ctx context.Context, c abcast.Change) (Position, error) {
	position, err := n.own(ctx, abcast.Message{Payload: c.Payload(), Change: true})
	if err != nil || !slices.Contains(c.Remove, n.cfg.ID) {
		return position, err
	}
	select {
	case <-n.ctx.Done():
		return position, nil
	case <-ctx.Done():
		return position, context.Cause(ctx)
	}
}

func addresses(members []abcast.Member) map[machine.NodeID]string {
	m := map[machine.NodeID]string{}
	for _, member := range members {
		m[member.ID] = member.Address
	}
	return m
}

// membersOf is the inverse of addresses.
func membersOf(addresses map[machine.NodeID]string) (list []abcast.Member) {
	for _, id := range slices.Sorted(maps.Keys(addresses)) {
		list = append(list, abcast.Member{ID: id, Address: addresses[id]})
	}
	return list
}

// addresses are the members that this one has connections with: those of the group, removed
// ones as long as they are needed, and all that the configuration names.
func (n *Node) addresses(g abcast.Group, established bool) map[machine.NodeID]string {
	all := addresses(g.Members)
	if !established {
		for _, m := range g.Removed {
			all[m.ID] = m.Address
		}
	}
	for id, addr := range n.cfg.Members {
		if all[id] == "" && !g.Gone(id) {
			all[id] = addr
		}
	}
	return all
}

// enterGroup goes over to new members. n.mu is held.
func (n *Node) enterGroup(g abcast.Group) {
	n.group = g
	n.setPeers(false)
	switch {
	case g.Gone(n.cfg.ID):
		n.endCalls(ErrRemoved)
	case g.Has(n.cfg.ID):
		select {
		case <-n.joined:
		default:
			close(n.joined)
		}
	}
}

// dropRemoved lets go of those that were removed. n.mu is held.
func (n *Node) dropRemoved(g abcast.Group) {
	if g.Gone(n.cfg.ID) {
		n.end(ErrRemoved)
		return
	}
	n.setPeers(true)
}

// noteRemovalClaim takes another member's word that this one was removed. It ends when most of
// the others say so, each at its address. One may be mistaken, or another process may be at its
// address. It believes its own log at once.
func (n *Node) noteRemovalClaim(by machine.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.outBy == nil {
		n.outBy = map[machine.NodeID]bool{}
	}
	n.outBy[by] = true
	others, say := 0, 0
	for id := range n.addresses(n.group, true) {
		if id != n.cfg.ID {
			others++
		}
		if n.outBy[id] {
			say++
		}
	}
	if 2*say > others {
		n.end(ErrRemoved)
		return
	}
	n.cfg.Logger.Warn("broadcast: a member says that this one was removed; this one ends when its own log says so, or most of the others",
		"member", by, "say so", say, "others", others)
}

// noteAccepted takes note that a member has taken this one's connection.
func (n *Node) noteAccepted(by machine.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.outBy, by)
}

func (n *Node) setPeers(established bool) {
	if n.peers == nil {
		return
	}
	var removed []machine.NodeID
	if established {
		for _, m := range n.group.Removed {
			removed = append(removed, m.ID)
		}
	}
	if err := n.peers.SetPeers(n.addresses(n.group, established), removed); err != nil && !errors.Is(err, peer.ErrClosed) {
		n.cfg.Logger.Warn("broadcast: the addresses of new members cannot be used", "error", err)
	}
}
