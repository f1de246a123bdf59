package etcdapi

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/kv"
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
	return read(ctx, s, r, r.Serializable, func(v kv.View) (*pb.RangeResponse, error) {
		done, err := s.begin(ctx, v.Longer(r.Key, r.RangeEnd, longRange))
		if err != nil {
			return nil, err
		}
		defer done()
		return v.Range(r)
	})
}

// longRange is the number of keys from which on a range takes turns with others.
const longRange = 1000

// begin waits for the turn of a read that takes long. Few of them run at a time, so that
// many do not keep those that take microseconds from the processors.
func (s *Server) begin(ctx context.Context, long bool) (done func(), err error) {
	if !long {
		return func() {}, nil
	}
	if err := s.scans.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.scans.Release(1) }, nil
}

// long reports whether a transaction that reads has a long range.
func long(v kv.View, r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if q := op.GetRequestRange(); q != nil && v.Longer(q.Key, q.RangeEnd, longRange) {
				return true
			}
			if t := op.GetRequestTxn(); t != nil && long(v, t) {
				return true
			}
		}
	}
	return false
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
			if err = s.backend.Barrier(ctx); err == nil {
				view, err = s.backend.ViewFor(ctx, r)
			}
		default:
			return resp, failed
		}
	}
}

// view is a state for a request that reads, whose caller was judged by the users of that state.
func (s *Server) view(ctx context.Context, r proto.Message, serializable bool) (kv.View, error) {
	if serializable {
		return s.backend.ViewFor(ctx, r)
	}
	return s.backend.ReadView(ctx, r)
}
