package etcdapi

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
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
	resp, err := read(ctx, s.Server, r, kv.Serializable(r), func(v kv.View) (*pb.TxnResponse, error) {
		done, err := s.begin(ctx, long(v, r))
		if err != nil {
			return nil, err
		}
		defer done()
		return v.Txn(r)
	})
	if err != nil {
		return nil, toStatus(err)
	}
	s.fill(resp.Header)
	return resp, nil
}
