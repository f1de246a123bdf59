package node

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// SetReadCells sets the policy static/key and divides the keys among holders of read
// leases, as text says in the language of [placement.Parse] with the names of members.
// The member that leads at this time holds all keys besides, which costs nothing: it
// sees every write. When another leads, say it again; until then reads there of keys
// that it does not hold ask the others.
//
// Errors are placement.ErrConfiguration, and Propose's; after one of these the policy
// may be set, and the keys divided as they were.
func (n *Node) SetReadCells(ctx context.Context, text string) error {
	conf, err := n.parseCells(text, n.leadership.Load().leader)
	if err != nil {
		return err
	}
	if err := n.SetReadPolicy(ctx, string(quorumlease.Static)); err != nil {
		return err
	}
	_, err = n.Propose(ctx, wrapperspb.Bytes(conf.Encode()))
	return err
}

func (n *Node) parseCells(text string, leader machine.NodeID) (*placement.Configuration, error) {
	var members []placement.Member
	for _, m := range n.applied().roster.Members {
		name := m.Name
		if at := slices.IndexFunc(n.founders, func(f *pb.Member) bool { return f.ID == m.ID }); name == "" && at >= 0 {
			name = n.founders[at].Name // it has not started
		}
		members = append(members, placement.Member{ID: machine.NodeID(m.ID), Name: name})
	}
	conf, err := placement.Parse(text, members)
	if err != nil || leader == 0 {
		return conf, err
	}
	return conf.Rebase(conf.Members(), leader)
}
