package etcdapi

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// A transaction that would look at more keys than may be is refused before it is replicated or read, also if nested ones do; at
// as many it is taken. One range alone is taken however many keys it has.
func TestTransactionsThatAreTooHeavy(t *testing.T) {
	s := serve(t, Config{maxTxnKeys: 20}, watch.Config{})
	for i := range 10 {
		if _, err := s.kv().Put(t.Context(), &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	compare := &pb.Compare{Key: []byte("k"), RangeEnd: []byte("l"), Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_Version{Version: 1}}
	put := putOp([]byte("written"), nil, 0)
	txn := func(compares int, ops ...*pb.RequestOp) *pb.TxnRequest {
		r := &pb.TxnRequest{Success: ops}
		for range compares {
			r.Compare = append(r.Compare, compare)
		}
		return r
	}
	nest := func(r *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
	}
	for name, tt := range map[string]struct {
		r    *pb.TxnRequest
		want error
	}{
		"a write of as many":      {txn(2, put), nil},
		"a write of more":         {txn(3, put), rpctypes.ErrGRPCTooManyOps},
		"a read of more":          {txn(3), rpctypes.ErrGRPCTooManyOps},
		"more in a nested one":    {txn(1, nest(txn(2, put))), rpctypes.ErrGRPCTooManyOps},
		"one range, again to see": {txn(1, put), nil},
	} {
		if _, err := s.kv().Txn(t.Context(), tt.r); (err != nil || tt.want != nil) && !same(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	one := serve(t, Config{maxTxnKeys: 5}, watch.Config{})
	for i := range 10 {
		if _, err := one.kv().Put(t.Context(), &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.kv().Txn(t.Context(), txn(1, put)); err != nil {
		t.Errorf("one range of many keys: %v, want it taken", err)
	}
}
