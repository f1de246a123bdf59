package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type clusterServer struct {
	*Server
	pb.UnsafeClusterServer
}

var errMembership = status.Error(codes.Unimplemented, "tenure: the members of a cluster cannot be changed yet")

// MemberList lists the members.
func (s *clusterServer) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := s.backend.Barrier(ctx); err != nil {
			return nil, toStatus(err)
		}
	}
	return &pb.MemberListResponse{Header: s.header(), Members: s.backend.Members()}, nil
}

// MemberAdd is not there yet.
func (s *clusterServer) MemberAdd(context.Context, *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	return nil, errMembership
}

// MemberRemove is not there yet.
func (s *clusterServer) MemberRemove(context.Context, *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	return nil, errMembership
}

// MemberUpdate is not there yet.
func (s *clusterServer) MemberUpdate(context.Context, *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	return nil, errMembership
}

// MemberPromote is not there yet.
func (s *clusterServer) MemberPromote(context.Context, *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	return nil, errMembership
}
