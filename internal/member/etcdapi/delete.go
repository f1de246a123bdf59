package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// DeleteRange deletes a key or a range.
func (s *kvServer) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := kv.CheckDeleteRange(r); err != nil {
		return nil, toStatus(err)
	}
	return propose[*pb.DeleteRangeResponse](ctx, s.Server, r)
}
