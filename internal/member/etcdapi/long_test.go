package etcdapi

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// Whichever way a transaction goes, a long range in it makes it long, wherever it stands.
func TestWhatIsLong(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for i := range longRange + 1 {
		s.put(fmt.Sprintf("k%05d", i), "v")
	}
	get := func(key, end string) *pb.RequestOp {
		return rangeOp(&pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)})
	}
	all, most, one := get("k", "l"), get("k", fmt.Sprintf("k%05d", longRange)), get("k00001", "")
	nested := func(r *pb.TxnRequest) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
	}
	for name, tt := range map[string]struct {
		r    *pb.TxnRequest
		want bool
	}{
		"nothing":                     {&pb.TxnRequest{}, false},
		"as many keys as may be":      {&pb.TxnRequest{Success: []*pb.RequestOp{most}, Failure: []*pb.RequestOp{one}}, false},
		"one more":                    {&pb.TxnRequest{Success: []*pb.RequestOp{all}}, true},
		"one more behind a short one": {&pb.TxnRequest{Success: []*pb.RequestOp{one, most, all}}, true},
		"one more if the compare fails": {&pb.TxnRequest{
			Success: []*pb.RequestOp{one}, Failure: []*pb.RequestOp{one, all},
		}, true},
		"nested, short": {&pb.TxnRequest{Success: []*pb.RequestOp{nested(&pb.TxnRequest{Success: []*pb.RequestOp{most}})}}, false},
		"nested, if the compare fails": {&pb.TxnRequest{
			Failure: []*pb.RequestOp{nested(&pb.TxnRequest{}), nested(&pb.TxnRequest{Failure: []*pb.RequestOp{all}})},
		}, true},
	} {
		if got := long(s.View(), tt.r); got != tt.want {
			t.Errorf("%s: the transaction is long: %v, want %v", name, got, tt.want)
		}
	}
}

// A long read that fails gives its turn back, too.
func TestTurnOfAReadThatFails(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for i := range longRange + 1 {
		s.put(fmt.Sprintf("k%05d", i), "v")
	}
	all := &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), Revision: 1 << 40}
	turns := int64(max(1, runtime.GOMAXPROCS(0)/2))
	for range turns + 1 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := s.kv().Range(ctx, all); !errors.Is(err, rpctypes.ErrGRPCFutureRev) {
			t.Errorf("a long read at a revision to come: %v, want %v", err, rpctypes.ErrGRPCFutureRev)
		}
		if _, err := s.kv().Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(all)}}); !errors.Is(err, rpctypes.ErrGRPCFutureRev) {
			t.Errorf("a long transaction at a revision to come: %v, want %v", err, rpctypes.ErrGRPCFutureRev)
		}
		cancel()
	}
	if !s.server.scans.TryAcquire(turns) {
		t.Error("a turn was not given back")
	}
}
