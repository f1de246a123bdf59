package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// memberID derives a member's ID from its URL and the cluster's token, so that
// all members know each other's without asking.
//
// One that joins later has a nonce, for another may have had its URL and been removed.
func memberID(url, token, nonce string) machine.NodeID {
	sum := sha256.Sum256([]byte(url + "\x00" + token + nonce))
	// Positive as an int64 for JSON clients, and never raft's reserved values.
	return machine.NodeID(binary.BigEndian.Uint64(sum[:8])>>1 | 1)
}

// clusterID derives the cluster's ID from those of its first members.
func clusterID(members []machine.NodeID, token string) uint64 {
	var b strings.Builder
	for _, id := range members {
		fmt.Fprintf(&b, "%016x", uint64(id))
	}
	sum := sha256.Sum256([]byte(b.String() + token))
	return binary.BigEndian.Uint64(sum[:8]) >> 1
}

// roster lists the members, in the order of their IDs.
func roster(peers map[string]string, token string) ([]*pb.Member, error) {
	var members []*pb.Member
	for name, url := range peers {
		members = append(members, &pb.Member{ID: uint64(memberID(url, token, "")), Name: name, PeerURLs: []string{url}})
	}
	slices.SortFunc(members, func(a, b *pb.Member) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(members); i++ {
		if members[i].ID == members[i-1].ID {
			return nil, fmt.Errorf("node: members %q and %q have the same URL %s: give each its own in --initial-cluster", members[i-1].Name, members[i].Name, members[i].PeerURLs[0])
		}
	}
	return members, nil
}

func rosterIDs(members []*pb.Member) []machine.NodeID {
	ids := make([]machine.NodeID, len(members))
	for i, m := range members {
		ids[i] = machine.NodeID(m.ID)
	}
	return ids
}

// reachableFounders returns an error if the flags of a first start name a member at a URL
// that the others cannot dial.
func (n *Node) reachableFounders() error {
	found, err := n.cfg.WAL.Exists(n.cfg.DataDir)
	if err != nil || found || n.cfg.Existing || len(n.founders) < 2 {
		return err
	}
	for _, m := range n.founders {
		if _, err := peerAddress(m.PeerURLs[0], n.cfg.PeerTLS != nil); err != nil {
			return fmt.Errorf("%w; see member %q in --initial-cluster", err, m.Name)
		}
	}
	return nil
}

// recognize returns an error if the flags and the data directory are of different members or
// clusters. Otherwise the directory has this member's identity and the others' addresses,
// whatever the flags say: members have come, gone and moved since
// they were written. The log may tell of URLs that are not applied yet.
func (n *Node) recognize(flags []*pb.Member, told map[string]uint64) error {
	now, own := n.applied().roster, n.cfg.Peers[n.cfg.Name]
	owner := map[string]uint64{}
	for _, m := range n.founders {
		owner[m.PeerURLs[0]] = m.ID
	}
	for _, m := range now.Members {
		for _, url := range m.PeerURLs {
			owner[url] = m.ID
		}
	}
	maps.Copy(owner, told)
	me := now.Find(uint64(n.id))
	known := me != nil && me.Name == n.cfg.Name && len(now.Members) == 1
	for _, m := range flags {
		known = known || owner[m.PeerURLs[0]] != 0
	}
	id, taken := owner[own]
	switch {
	case !known:
		return fmt.Errorf("node: %s belongs to cluster %x, but the flags describe another: none of its members is at a URL of --initial-cluster. Name one there, or give another --data-dir", n.cfg.DataDir, n.cluster)
	case me != nil && taken && id != uint64(n.id) && now.Find(id) != nil:
		return fmt.Errorf("node: %s belongs to member %x, but the flags describe member %x, at %s: give every member a --data-dir of its own", n.cfg.DataDir, uint64(n.id), id, own)
	case me != nil && !slices.Contains(me.PeerURLs, own):
		n.logger.Warn("the others know this member at another URL than its flags say, and dial that: tell them by `tenure member update`", "they dial", me.PeerURLs, "flags", own)
	}
	return nil
}
