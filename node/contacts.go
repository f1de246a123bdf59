package node

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/peer"
	"github.com/tenure-lease/tenure/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// contacts is where others are. A member that has just joined, or that was away for
// long, knows some of them only by what they say, until its state does.
type contacts struct {
	mu      sync.Mutex
	members map[machine.NodeID]string // by the state, at the last change
	heard   map[machine.NodeID]string // from others
}

// reconnect has connections to all who are members now. One that was removed keeps its
// own for a while, by which it hears of that.
func (n *Node) reconnect(now replica.Roster) {
	if n.peers == nil {
		return
	}
	for _, m := range now.Members {
		n.logger.Info("member", "id", fmt.Sprintf("%x", m.ID), "peers", m.PeerURLs, "learner", m.IsLearner)
	}
	c := &n.contacts
	c.mu.Lock()
	defer c.mu.Unlock()
	late := map[machine.NodeID]string{}
	for id, addr := range c.members {
		if now.WasRemoved(uint64(id)) {
			late[id] = addr
		}
	}
	c.members = n.addresses(now)
	n.setPeers(now, late)
	if len(late) > 0 {
		time.AfterFunc(n.cfg.ElectionTimeout, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			n.setPeers(n.applied().roster, nil)
		})
	}
}

// meet takes note of members that this one does not know of yet.
func (n *Node) meet(members []founder) {
	c := &n.contacts
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil {
		c.heard = map[machine.NodeID]string{}
	}
	maps.Copy(c.heard, n.reachable(members, uint64(n.id)))
	n.setPeers(n.applied().roster, nil)
}

// setPeers tells the transport. The contacts' lock is held.
func (n *Node) setPeers(now replica.Roster, late map[machine.NodeID]string) {
	addrs := n.addresses(now)
	for id, addr := range n.contacts.heard {
		if _, known := addrs[id]; !known && !now.WasRemoved(uint64(id)) {
			addrs[id] = addr
		}
	}
	maps.Copy(addrs, late)
	var removed []machine.NodeID
	for _, id := range now.Removed {
		if _, leaves := late[machine.NodeID(id)]; !leaves {
			removed = append(removed, machine.NodeID(id))
		}
	}
	if err := n.peers.SetPeers(addrs, removed); err != nil && !errors.Is(err, peer.ErrClosed) {
		n.logger.Error("connections to the members", "err", err)
	}
}

// addresses are where the members of the state are, and who was heard of before there
// was one.
func (n *Node) addresses(ro replica.Roster) map[machine.NodeID]string {
	addrs := map[machine.NodeID]string{}
	for _, m := range ro.Members {
		one, err := peerAddresses([]*pb.Member{m}, n.id, n.cfg.PeerTLS != nil)
		if err != nil {
			n.logger.Error("a member that cannot be reached", "err", err)
		}
		for id, addr := range one {
			if m.PeerURLs[0] != n.cfg.Peers[n.cfg.Name] { // else this one has taken its place
				addrs[id] = addr
			}
		}
	}
	return addrs
}

// reachable are the addresses of those who are not this member.
func (n *Node) reachable(members []founder, self uint64) map[machine.NodeID]string {
	addrs := map[machine.NodeID]string{}
	for _, m := range members {
		if m.ID == self || m.ID == 0 {
			continue
		}
		if one, err := peerAddresses([]*pb.Member{{ID: m.ID, PeerURLs: []string{m.URL}}}, 0, n.cfg.PeerTLS != nil); err == nil {
			maps.Copy(addrs, one)
		}
	}
	return addrs
}

// introduce tells a member that does not know this one who the members are.
func (n *Node) introduce(to machine.NodeID) {
	n.contacts.mu.Lock()
	addr := n.contacts.members[to]
	n.contacts.mu.Unlock()
	if addr == "" {
		return
	}
	n.done.Go(func() {
		ctx, cancel := n.context()
		defer cancel()
		if _, err := peer.Ask(ctx, addr, n.cfg.PeerTLS, n.cfg.Dial, n.introduction()); err != nil {
			n.logger.Debug("introduce this member", "to", fmt.Sprintf("%x", uint64(to)), "err", err)
		}
	})
}
