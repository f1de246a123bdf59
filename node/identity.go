package node

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/machine"
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

// roster is who the members are, in the order of their IDs.
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
