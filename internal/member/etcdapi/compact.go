package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Compact forgets the history before a revision. The flag physical changes
// nothing: readers never see compacted history, and there is no file to shrink.
func (s *kvServer) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return propose[*pb.CompactionResponse](ctx, s.Server, r)
}
