package etcdapi

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

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

// read answers from a state that is as fresh as is asked for.
func (s *Server) read(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	view, err := s.view(ctx, r, r.Serializable)
	for again := !r.Serializable; ; {
		if err != nil {
			return nil, err
		}
		resp, failed := view.Range(r)
		switch {
		case errors.Is(failed, kv.ErrStaleView) && ctx.Err() == nil: // compacted while we read
			view, err = s.view(ctx, r, r.Serializable)
		case errors.Is(failed, kv.ErrFutureRevision) && again: // of a key that is held elsewhere, maybe
			again = false
			err = s.backend.Barrier(ctx)
			view = s.backend.View()
		default:
			return resp, failed
		}
	}
}

// view is a state for a request that reads.
func (s *Server) view(ctx context.Context, r proto.Message, serializable bool) (kv.View, error) {
	if serializable {
		return s.backend.View(), nil
	}
	return s.backend.ReadView(ctx, r)
}
