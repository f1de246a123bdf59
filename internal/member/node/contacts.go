package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// contacts are the addresses of the others, by the log. The log of a member that has just
// joined, or that was away for long, may not have the present members, so that it does not
// know the leader. Those it knows by hearsay, which is believed only for want of better, and
// never against the log:
//
//   - it is the answer to a question of this member's own, to an address that the log has
//     or that its operator gave it. A process that answers there is believed as a member
//     anyway;
//   - it adds members that the log does not know, and does not move or remove one that it
//     knows, nor bring back one that was removed;
//   - it is bounded, and asked for only while there is no leader.
//
// Config.Existing says that the flags are of now: the operator may know of a move that this member missed. So
// while there is no leader, members are looked for where the log says, and each fourth time where such flags say.
// The process there is asked for its ID.
type contacts struct {
	mu      sync.Mutex
	members map[machine.NodeID]string // by the state, at the last change
	heard   map[machine.NodeID]string // from others
	turn    int                       // how often a leader was looked for; see elsewhere

	asked  time.Time // last, of all
	asking bool
}

// heardMax bounds the members that are known by hearsay, and answers name no more.
const heardMax = 64

// reconnect has connections to all members of now. A member that was removed keeps its connection
// for an election timeout, and so does a connected one that was moved: over it, it hears of that.
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
	late, next := map[machine.NodeID]string{}, n.addresses(now)
	for id, addr := range c.members {
		if now.WasRemoved(uint64(id)) || next[id] != addr && n.peers.Stats(id).Connected {
			late[id] = addr
		}
	}
	c.members = next
	n.setPeers(now, late)
	if len(late) > 0 {
		time.AfterFunc(n.cfg.ElectionTimeout, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			n.setPeers(n.applied().roster, nil)
		})
	}
}

// lookAround asks where the members are, while there is no leader: the one that there is
// may have joined or moved while this member was away. It tries again after an election timeout.
func (n *Node) lookAround(now time.Time) {
	c := &n.contacts
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, _, lost := n.Leader()
	if leader != 0 && c.turn > 0 && now.Sub(c.asked) > 2*n.cfg.ElectionTimeout { // by now the log says where all are
		c.turn = 0
		n.setPeers(n.applied().roster, nil)
	}
	if leader != 0 || lost < n.cfg.ElectionTimeout || c.asking || now.Sub(c.asked) < n.cfg.ElectionTimeout {
		return
	}
	c.turn++
	n.setPeers(n.applied().roster, nil)
	addrs := map[string]bool{}
	for _, addr := range n.addresses(n.applied().roster) {
		addrs[addr] = true
	}
	if n.cfg.Existing { // whose flags are not of the cluster's first day
		for _, url := range n.cfg.Peers {
			if addr, err := peerAddress(url, n.cfg.PeerTLS != nil); err == nil && url != n.cfg.Peers[n.cfg.Name] {
				addrs[addr] = true
			}
		}
	}
	c.asking, c.asked = true, now
	n.done.Go(func() {
		for addr := range addrs {
			in, err := n.askMembers(n.ctx, addr)
			if err != nil || in.Cluster != n.cluster {
				n.logger.Debug("ask for the members", "at", addr, "err", err)
				continue
			}
			n.meet(in.Members)
		}
		c.mu.Lock()
		c.asking = false
		c.mu.Unlock()
	})
}

// meet takes note of members that this one does not know of yet.
func (n *Node) meet(members []founder) {
	c := &n.contacts
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard == nil {
		c.heard = map[machine.NodeID]string{}
	}
	now := n.applied().roster
	for id, addr := range n.reachable(members, uint64(n.id)) {
		if now.Find(uint64(id)) == nil && !now.WasRemoved(uint64(id)) && (c.heard[id] != "" || len(c.heard) < heardMax) {
			c.heard[id] = addr
		}
	}
	n.setPeers(now, nil)
}

// acquaintances are the others that this member knows, by its log or by hearsay.
func (n *Node) acquaintances() []uint64 {
	c := &n.contacts
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []uint64
	for id := range c.heard {
		list = append(list, uint64(id))
	}
	for _, m := range n.applied().roster.Members {
		list = append(list, m.ID)
	}
	return others(list, uint64(n.id))
}

// setPeers tells the transport. The contacts' lock is held.
func (n *Node) setPeers(now replica.Roster, late map[machine.NodeID]string) {
	addrs := n.addresses(now)
	for id, addr := range n.contacts.heard {
		if now.Find(uint64(id)) != nil || now.WasRemoved(uint64(id)) {
			delete(n.contacts.heard, id) // the log knows better
			continue
		}
		addrs[id] = addr
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

// addresses are where the members of the state are. The contacts' lock is held.
func (n *Node) addresses(ro replica.Roster) map[machine.NodeID]string {
	addrs, elsewhere := map[machine.NodeID]string{}, n.elsewhere(ro)
	for _, m := range ro.Members {
		if m.ID == uint64(n.id) {
			continue
		}
		url := ""
		if len(m.PeerURLs) > 0 {
			url = m.PeerURLs[0]
		}
		if flag := elsewhere[m.ID]; flag != "" {
			url = flag
		}
		addr, err := peerAddress(url, n.cfg.PeerTLS != nil)
		switch {
		case err != nil: // an earlier version let it in
			n.logger.Error("a member that cannot be reached: say where it is, by `tenure member update`", "member", fmt.Sprintf("%x", m.ID), "name", m.Name, "err", err)
		case url != n.cfg.Peers[n.cfg.Name]: // else this one has taken its place
			addrs[machine.NodeID(m.ID)] = addr
		}
	}
	return addrs
}

// elsewhere lists URLs of the flags that the log does not have, for members whose URLs the
// flags do not have. A member that has missed a move may not know which URL belongs to
// which member, and tries one after the other. The contacts' lock is held.
func (n *Node) elsewhere(ro replica.Roster) map[uint64]string {
	turn := n.contacts.turn
	if turn%4 != 3 || !n.cfg.Existing { // flags of the cluster's first day may name addresses that were given up since
		return nil
	}
	flags := slices.Sorted(maps.Values(n.cfg.Peers))
	places := slices.DeleteFunc(slices.Clone(flags), func(url string) bool {
		return url == n.cfg.Peers[n.cfg.Name] || slices.ContainsFunc(ro.Members, func(m *pb.Member) bool { return slices.Contains(m.PeerURLs, url) })
	})
	urls := map[uint64]string{}
	for _, m := range ro.Members {
		at := func(url string) bool { return slices.Contains(m.PeerURLs, url) }
		if m.ID != uint64(n.id) && len(places) > 0 && !slices.ContainsFunc(flags, at) {
			urls[m.ID] = places[(turn/4+len(urls))%len(places)]
		}
	}
	return urls
}

// reachable are the addresses of the other members, heardMax at most.
func (n *Node) reachable(members []founder, self uint64) map[machine.NodeID]string {
	addrs := map[machine.NodeID]string{}
	for _, m := range members[:min(len(members), heardMax)] {
		if m.ID == self || m.ID == 0 {
			continue
		}
		if addr, err := peerAddress(m.URL, n.cfg.PeerTLS != nil); err == nil {
			addrs[machine.NodeID(m.ID)] = addr
		}
	}
	return addrs
}
