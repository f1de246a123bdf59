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
	if err := s.bearable(ctx, r); err != nil {
		return nil, err
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

// Bounds of the keys that a transaction looks at, and from which on it waits for a turn to have them counted. All
// members apply a transaction between others, so that one of two minutes stops all writes for two minutes.
const (
	defaultMaxTxnKeys = 10_000_000
	countedInTurn     = 100_000
)

// bearable refuses a transaction that would look at too many keys.
func (s *kvServer) bearable(ctx context.Context, r *pb.TxnRequest) error {
	v, most := s.backend.View(), s.config.maxTxnKeys
	if !v.Heavier(r, min(countedInTurn, most)) {
		return nil
	}
	done, err := s.begin(ctx, true)
	if err != nil {
		return err
	}
	defer done()
	if v.Heavier(r, most) {
		return toStatus(kv.ErrTooManyOps)
	}
	return nil
}
