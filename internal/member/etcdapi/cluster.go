package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

type clusterServer struct {
	*Server
	pb.UnsafeClusterServer
}

// MemberList lists the members.
func (s *clusterServer) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := s.backend.Barrier(ctx); err != nil {
			return nil, toStatus(err)
		}
		if err := s.permit(ctx, r); err != nil {
			return nil, toStatus(err)
		}
	}
	return &pb.MemberListResponse{Header: s.header(), Members: s.backend.Members()}, nil
}

// MemberAdd adds a voter or a learner, which has to be started then.
func (s *clusterServer) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	m, all, err := s.backend.AddMember(ctx, r.PeerURLs, r.IsLearner)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MemberAddResponse{Header: s.header(), Member: m, Members: all}, nil
}

// MemberRemove removes a member for good.
func (s *clusterServer) MemberRemove(ctx context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	all, err := s.backend.RemoveMember(ctx, r.ID)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MemberRemoveResponse{Header: s.header(), Members: all}, nil
}

// MemberUpdate says at which URL the others find a member from now on.
func (s *clusterServer) MemberUpdate(ctx context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	all, err := s.backend.UpdateMember(ctx, r.ID, r.PeerURLs)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MemberUpdateResponse{Header: s.header(), Members: all}, nil
}

// MemberPromote gives a learner a vote, once it has caught up.
func (s *clusterServer) MemberPromote(ctx context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	all, err := s.backend.PromoteMember(ctx, r.ID)
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MemberPromoteResponse{Header: s.header(), Members: all}, nil
}
