package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type maintenanceServer struct {
	*Server
	pb.UnsafeMaintenanceServer
}

// version is the version of etcd whose API this is. Clients derive from it what
// they may use.
const version = "3.7.3"

// storageVersion is what etcd reports of its data's format.
const storageVersion = "3.7.0"

// Status describes this member.
func (s *maintenanceServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	st := s.backend.Status()
	leader, term, _ := s.backend.Leader()
	resp := &pb.StatusResponse{
		Header:           s.header(),
		Version:          version,
		Leader:           leader,
		RaftIndex:        st.CommittedIndex,
		RaftAppliedIndex: st.AppliedIndex,
		RaftTerm:         term,
		DbSize:           st.Size,
		DbSizeInUse:      st.SizeInUse,
		DbSizeQuota:      s.config.QuotaBytes,
		IsLearner:        st.IsLearner,
		StorageVersion:   storageVersion,
		DowngradeInfo:    &pb.DowngradeInfo{},
	}
	if leader == 0 {
		resp.Errors = append(resp.Errors, rpctypes.ErrNoLeader.Error())
	}
	if s.full(0) {
		resp.Errors = append(resp.Errors, rpctypes.ErrNoSpace.Error())
	}
	resp.Errors = append(resp.Errors, st.Errors...)
	return resp, nil
}

// Defragment has nothing to do: memory is given back as history is compacted.
func (s *maintenanceServer) Defragment(context.Context, *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	return &pb.DefragmentResponse{Header: s.header()}, nil
}

// Alarm lists no alarms, since nothing raises one yet; etcdctl asks for them to find out
// whether an endpoint is healthy.
func (s *maintenanceServer) Alarm(_ context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if r.Action != pb.AlarmRequest_GET {
		return nil, status.Error(codes.Unimplemented, "tenure: there are no alarms yet, to raise or to disarm")
	}
	return &pb.AlarmResponse{Header: s.header()}, nil
}

// Hash is not there yet.
func (s *maintenanceServer) Hash(context.Context, *pb.HashRequest) (*pb.HashResponse, error) {
	return nil, errHash
}

// HashKV is not there yet.
func (s *maintenanceServer) HashKV(context.Context, *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	return nil, errHash
}

var errHash = status.Error(codes.Unimplemented, "tenure: hashes of the state are not available yet")

// Snapshot is not there yet.
func (s *maintenanceServer) Snapshot(*pb.SnapshotRequest, pb.Maintenance_SnapshotServer) error {
	return status.Error(codes.Unimplemented, "tenure: snapshots cannot be fetched yet; copy the data directory of a stopped member instead")
}

// moveTimeouts is for how many election timeouts leadership may be on its way. Writes wait
// meanwhile, so a target that does not answer must not be tried for as long as a client waits.
const moveTimeouts = 3

// MoveLeader passes leadership from this member to another one. It fails with etcd's timeout if the
// other does not take it.
func (s *maintenanceServer) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	moving, cancel := context.WithTimeout(ctx, moveTimeouts*s.config.ElectionTimeout)
	defer cancel()
	err := s.backend.MoveLeader(moving, r.TargetID)
	if err != nil && ctx.Err() == nil && moving.Err() != nil {
		err = rpctypes.ErrGRPCTimeout
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MoveLeaderResponse{Header: s.header()}, nil
}

// Downgrade is not there yet.
func (s *maintenanceServer) Downgrade(context.Context, *pb.DowngradeRequest) (*pb.DowngradeResponse, error) {
	return nil, status.Error(codes.Unimplemented, "tenure: downgrades are not supported")
}
