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

// read answers a range.
func (s *Server) read(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return read(ctx, s, r, r.Serializable, func(v kv.View) (*pb.RangeResponse, error) { return v.Range(r) })
}

// read has a request answered from a state that is as fresh as is asked for.
func read[Response any](ctx context.Context, s *Server, r proto.Message, serializable bool, answer func(kv.View) (*Response, error)) (*Response, error) {
	view, err := s.view(ctx, r, serializable)
	for again := !serializable; ; {
		if err != nil {
			return nil, err
		}
		resp, failed := answer(view)
		switch {
		case errors.Is(failed, kv.ErrStaleView) && ctx.Err() == nil: // compacted while we read
			view, err = s.view(ctx, r, serializable)
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
