package castworld

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// spares are hosts that are no members at first.
var spares = []machine.NodeID{6, 7, 8}

// present are the members of this moment.
func (c *cast) present() []machine.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

func (c *cast) set(members []machine.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = members
}

// changeMembers changes the members: one comes in the place of another, or beside them, or leaves. One
// change is seen through before the next.
func (c *cast) changeMembers(r *rand.Rand) {
	if !c.changing.TryLock() {
		return
	}
	defer c.changing.Unlock()
	members := c.present()
	out := members[r.IntN(len(members))]
	at := slices.IndexFunc(spares, func(id machine.NodeID) bool { return c.hosts[id].isAbsent() })
	var change func(ctx context.Context, n *broadcast.Node) (broadcast.Position, error)
	next := slices.Clone(members)
	var in *host
	switch kind := r.IntN(3); {
	case len(members) > founders(c.w.Seed):
		next = slices.DeleteFunc(next, func(id machine.NodeID) bool { return id == out })
		change = func(ctx context.Context, n *broadcast.Node) (broadcast.Position, error) {
			return n.RemoveMember(ctx, out)
		}
	case at < 0:
		return
	default:
		in = c.hosts[spares[at]]
		next = append(next, in.id)
		change = func(ctx context.Context, n *broadcast.Node) (broadcast.Position, error) {
			return n.AddMember(ctx, in.id, addr(in.id))
		}
		if kind > 0 {
			next = slices.DeleteFunc(next, func(id machine.NodeID) bool { return id == out })
			change = func(ctx context.Context, n *broadcast.Node) (broadcast.Position, error) {
				return n.ReplaceMember(ctx, out, in.id, addr(in.id))
			}
		}
	}
	slices.Sort(next)
	c.w.Trace.Add("members: %v to %v", members, next)
	if in != nil {
		in.mu.Lock()
		in.absent = false
		in.mu.Unlock()
		in.start()
	}
	before := c.judge.changed()
	for c.over.Err() == nil && c.judge.changed() == before { // until it is ordered, once
		if h := c.hosts[members[r.IntN(len(members))]]; h.id != out {
			h.mu.Lock()
			n := h.node
			h.mu.Unlock()
			if n != nil {
				ctx, cancel := context.WithTimeout(c.over, 2*time.Second)
				_, err := change(ctx, n)
				cancel()
				c.w.Trace.Add("%s changes members: %v", name(h.id), err)
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	c.set(next)
	for c.over.Err() == nil && c.missing() != "" {
		time.Sleep(200 * time.Millisecond)
	}
	if c.over.Err() == nil {
		c.w.Count("changes seen through", 1)
	}
}

func (h *host) isAbsent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.absent
}

// changed is how many changes of the members are in the order.
func (j *judge) changed() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changes
}

// missing names an event that has not come to pass yet, "" if all have.
func (c *cast) missing() string {
	up := 0
	members := c.present()
	for _, id := range members {
		h := c.hosts[id]
		h.mu.Lock()
		n, gone, at := h.node, h.gone, h.at
		h.mu.Unlock()
		switch {
		case gone:
			continue
		case n == nil:
			return fmt.Sprintf("member %d does not run", id)
		case at < c.judge.length():
			return fmt.Sprintf("member %d has delivered up to %d of %d (%v)", id, at, c.judge.length(), n.Waiting())
		}
		up++
	}
	if up <= len(members)/2 {
		return fmt.Sprintf("%d of %d members are left", up, len(members))
	}
	for _, h := range c.hosts {
		h.mu.Lock()
		here := !h.absent && !h.gone
		h.mu.Unlock()
		if here && !slices.Contains(members, h.id) {
			return fmt.Sprintf("member %d was removed, and has not ended", h.id)
		}
	}
	return ""
}
