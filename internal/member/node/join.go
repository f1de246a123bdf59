package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3/raftpb"
)

// introduction is what a member tells of its cluster to one that wants to join.
type introduction struct {
	Cluster  uint64    `json:"cluster_id"`
	Founders []founder `json:"founders"`
	Members  []founder `json:"members"` // a line for each URL
	Started  []uint64  `json:"started"` // members that have told their names: those that may have voted
	Voters   []uint64  `json:"voters,omitempty"`
}

// described is the identity of a founder, by its flags.
func described(founders []*pb.Member, self machine.NodeID, token string) identity {
	id := identity{Member: uint64(self)}
	for _, m := range founders {
		id.Voters = append(id.Voters, m.ID)
		id.Founders = append(id.Founders, founder{m.ID, m.PeerURLs[0]})
	}
	id.Cluster = clusterID(rosterIDs(founders), token)
	return id
}

// founders are the members that began the cluster, by the data directory, with their names
// in the flags.
func (id identity) founders(flags []*pb.Member) []*pb.Member {
	var list []*pb.Member
	for _, f := range id.Founders {
		m := &pb.Member{ID: f.ID, PeerURLs: []string{f.URL}}
		if at := slices.IndexFunc(flags, func(o *pb.Member) bool { return o.ID == f.ID }); at >= 0 {
			m.Name = flags[at].Name
		}
		list = append(list, m)
	}
	return list
}

// answerIntroduction answers the question of one that wants to join, or that was away for long. It
// may come from anybody: the answer contains no secret, and the question is not believed.
func (n *Node) answerIntroduction([]byte) []byte { return n.introduction() }

// introduction is what this member says of the cluster.
func (n *Node) introduction() []byte {
	in := introduction{Cluster: n.cluster, Voters: n.applied().roster.ConfState().GetVoters()}
	for _, m := range n.founders {
		in.Founders = append(in.Founders, founder{m.ID, m.PeerURLs[0]})
	}
	for _, m := range n.applied().roster.Members {
		for _, u := range m.PeerURLs {
			in.Members = append(in.Members, founder{m.ID, u})
		}
		if m.Name != "" {
			in.Started = append(in.Started, m.ID)
		}
	}
	p, err := json.Marshal(in)
	if err != nil {
		panic(err) // numbers and strings
	}
	return p
}

// join finds this member's identity: in its data, or by asking the others, which know it by
// its URL.
func (n *Node) join() (identity, error) {
	found, err := n.cfg.WAL.Exists(n.cfg.DataDir)
	if err != nil {
		return identity{}, err
	}
	if found {
		return identity{}, nil // which tells
	}
	url := n.cfg.Peers[n.cfg.Name]
	addrs := map[machine.NodeID]string{}
	for _, m := range n.founders {
		if machine.NodeID(m.ID) == n.id {
			continue
		}
		if addrs[machine.NodeID(m.ID)], err = peerAddress(m.PeerURLs[0], n.cfg.PeerTLS != nil); err != nil {
			return identity{}, err
		}
	}
	if len(addrs) == 0 {
		return identity{}, errors.New("node: a member that joins a cluster needs to know others: name them in --initial-cluster")
	}
	ctx, cancel := n.cfg.Starting(n.cfg.RequestTimeout)
	defer cancel()
	id, err := n.askAll(ctx, addrs, url)
	if err != nil && n.cfg.aborted() {
		return identity{}, ErrAborted
	}
	return id, err
}

// askAll asks the others for this member's identity, one after the other, until one knows it.
func (n *Node) askAll(ctx context.Context, addrs map[machine.NodeID]string, url string) (identity, error) {
	var told []error // by the last round that was not cut short
	for {
		var failures []error
		for _, id := range slices.Sorted(maps.Keys(addrs)) {
			who, err := introduced(ctx, n, addrs[id], url)
			if err == nil {
				return who, nil
			}
			if errors.Is(err, errForgetful) { // that does not pass
				return identity{}, fmt.Errorf("node: join the cluster: %w", err)
			}
			failures = append(failures, err)
		}
		// A dial may be cut short before the context says that its time is over.
		deadline, limited := ctx.Deadline()
		if told == nil || ctx.Err() == nil && !(limited && time.Now().After(deadline)) {
			told = failures
		}
		select {
		case <-ctx.Done():
			return identity{}, fmt.Errorf("node: join the cluster: %w", errors.Join(told...))
		case <-time.After(n.cfg.HeartbeatInterval): // one that is asked may not have heard of us yet
		}
	}
}

// askMembers asks at an address for the members.
func (n *Node) askMembers(ctx context.Context, addr string) (in introduction, err error) {
	p, err := peer.Ask(ctx, addr, n.cfg.PeerTLS, n.cfg.Dial, nil)
	if err == nil {
		err = json.Unmarshal(p, &in)
	}
	if err != nil {
		return in, fmt.Errorf("ask %s: %w", addr, err)
	}
	return in, nil
}

// introduced asks one member for this member's identity and the others' addresses.
func introduced(ctx context.Context, n *Node, addr, url string) (identity, error) {
	in, err := n.askMembers(ctx, addr)
	if err != nil {
		return identity{}, err
	}
	at := slices.IndexFunc(in.Members, func(m founder) bool { return m.URL == url })
	if at < 0 {
		return identity{}, fmt.Errorf("%s knows no member at %s: `tenure member add %s --peer-urls=%s` first", addr, url, n.cfg.Name, url)
	}
	if slices.Contains(in.Started, in.Members[at].ID) {
		return identity{}, fmt.Errorf("%s says that the member at %s has run before, and this directory is empty: %w; if its disk was lost, remove it and add it again", addr, url, errForgetful)
	}
	n.contacts.heard = n.reachable(in.Members, in.Members[at].ID)
	for i, f := range in.Founders { // it has to find those that have moved before its log says where to
		if now := slices.IndexFunc(in.Members, func(m founder) bool { return m.ID == f.ID }); now >= 0 {
			in.Founders[i].URL = in.Members[now].URL
		}
	}
	id := identity{Cluster: in.Cluster, Member: in.Members[at].ID, Founders: in.Founders, Joined: true}
	id.Witnesses = slices.DeleteFunc(in.Voters, func(v uint64) bool { return v == id.Member })
	for _, f := range in.Founders {
		id.Voters = append(id.Voters, f.ID)
		if f.ID == id.Member {
			return identity{}, fmt.Errorf("%s says that the member at %s is one of the first, which cannot join: %w; if its disk was lost, remove it and add it again", addr, url, errForgetful)
		}
	}
	return id, nil
}

// removed ends the member for good, once the calls that wait for the change are answered.
func (n *Node) removed() {
	text := fmt.Sprintf("Member %x was removed from its cluster, and never starts again from here.\n", uint64(n.id))
	if err := noteRemoval(n.cfg.DataDir, n.cfg.WAL.FS, text); err != nil {
		n.logger.Warn("note that this member was removed", "err", err) // it will be told again
	}
	time.AfterFunc(n.cfg.HeartbeatInterval, func() { n.fail(ErrRemoved) })
}

// AddMember makes another member, that votes or only learns, at a URL where nobody is,
// and returns it and all members. It has to be started, with Existing and that URL.
// Errors are etcd's, as those of the other changes of the membership. Each returns when
// it is in force at this member.
func (n *Node) AddMember(ctx context.Context, peerURLs []string, learner bool) (*pb.Member, []*pb.Member, error) {
	if !n.goodURLs(peerURLs) {
		return nil, nil, rpctypes.ErrGRPCMemberBadURLs
	}
	if n.peers == nil {
		return nil, nil, errors.New("node: this member does not listen for others: set PeerListener")
	}
	id := uint64(memberID(peerURLs[0], n.cfg.ClusterToken, rand.Text()))
	list, err := n.reshape(ctx, replica.AddMember(id, peerURLs, learner))
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(list, func(m *pb.Member) bool { return m.ID == id })
	return list[at], list, nil
}

// RemoveMember removes a member for good, and returns those that are left.
func (n *Node) RemoveMember(ctx context.Context, id uint64) ([]*pb.Member, error) {
	return n.reshape(ctx, replica.RemoveMember(id))
}

// PromoteMember gives a learner a vote.
func (n *Node) PromoteMember(ctx context.Context, id uint64) ([]*pb.Member, error) {
	return n.reshape(ctx, replica.PromoteMember(id))
}

// UpdateMember says where a member is from now on.
func (n *Node) UpdateMember(ctx context.Context, id uint64, peerURLs []string) ([]*pb.Member, error) {
	if !n.goodURLs(peerURLs) {
		return nil, rpctypes.ErrGRPCMemberBadURLs
	}
	return n.reshape(ctx, replica.UpdateMember(id, peerURLs))
}

// goodURLs reports whether a member may be there.
func (n *Node) goodURLs(peerURLs []string) bool {
	if len(peerURLs) != 1 { // as everywhere here
		return false
	}
	_, err := peerAddress(peerURLs[0], n.cfg.PeerTLS != nil)
	return err == nil
}

func (n *Node) reshape(ctx context.Context, cc *raftpb.ConfChange) ([]*pb.Member, error) {
	resp, err := n.Propose(ctx, cc)
	if err != nil {
		return nil, err
	}
	return resp.(*pb.MemberListResponse).Members, nil
}
