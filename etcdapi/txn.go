package etcdapi

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/kv"
)

// Txn compares, and reads and writes accordingly. One that only reads is answered
// from the published state.
func (s *kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := kv.CheckTxn(r, s.config.MaxTxnOps); err != nil {
		return nil, toStatus(err)
	}
	if !kv.ReadOnly(r) {
		return propose[*pb.TxnResponse](ctx, s.Server, r)
	}
	view, err := s.view(ctx, r, kv.Serializable(r))
	for {
		if err != nil {
			return nil, toStatus(err)
		}
		resp, failed := view.Txn(r)
		if errors.Is(failed, kv.ErrStaleView) && ctx.Err() == nil { // compacted while we read
			view, err = s.view(ctx, r, kv.Serializable(r))
			continue
		}
		if failed != nil {
			return nil, toStatus(failed)
		}
		s.fill(resp.Header)
		return resp, nil
	}
}
