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
	if !kv.Serializable(r) {
		if err := s.backend.Barrier(ctx); err != nil {
			return nil, toStatus(err)
		}
	}
	for {
		resp, err := s.backend.View().Txn(r)
		if errors.Is(err, kv.ErrStaleView) {
			continue // compacted while we read
		}
		if err != nil {
			return nil, toStatus(err)
		}
		s.fill(resp.Header)
		return resp, nil
	}
}
