package etcdapi

import (
	"context"
	"regexp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apiversion "go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// versionNumber is a version as etcd reads one: of two numbers or three.
var versionNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?)?$`)

// Downgrade answers as a cluster of etcd's that can be downgraded to no version. Etcd permits one
// minor version back, for which it writes its data in an older format. Here the data have no such
// format, and are none of etcd's. A downgrade is never under way, and so to cancel it succeeds.
func (s *maintenanceServer) Downgrade(_ context.Context, r *pb.DowngradeRequest) (*pb.DowngradeResponse, error) {
	switch r.Action {
	case pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE:
		if !versionNumber.MatchString(r.Version) {
			return nil, rpctypes.ErrGRPCWrongDowngradeVersionFormat
		}
		return nil, rpctypes.ErrGRPCInvalidDowngradeTargetVersion
	case pb.DowngradeRequest_CANCEL:
		return &pb.DowngradeResponse{Header: s.header(), Version: apiversion.Cluster(clusterVersion)}, nil
	}
	return nil, status.Error(codes.Unknown, "etcdserver: unknown method")
}
