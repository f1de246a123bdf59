package etcdapi

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/kv"
)

type kvServer struct {
	*Server
	pb.UnsafeKVServer
}

// Range reads keys.
func (s *kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := kv.CheckRange(r); err != nil {
		return nil, toStatus(err)
	}
	resp, err := s.read(ctx, r)
	if err != nil {
		return nil, toStatus(err)
	}
	s.fill(resp.Header)
	return resp, nil
}

// read answers from the published state, behind a barrier if that is asked for.
func (s *Server) read(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if !r.Serializable {
		if err := s.backend.Barrier(ctx); err != nil {
			return nil, err
		}
	}
	for {
		resp, err := s.backend.View().Range(r)
		if !errors.Is(err, kv.ErrStaleView) {
			return resp, err
		}
		// Compacted while we read. The next view is not.
	}
}
