package kv

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A transaction is as heavy as the keys in all its ranges, wherever they stand; one range alone is not too heavy.
func TestHeavier(t *testing.T) {
	s := New()
	for i := range 10 {
		if _, err := s.Put(&pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	v, all := s.View(), []byte{0}
	compare := &pb.Compare{Key: all, RangeEnd: all}
	read := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: all, RangeEnd: all}}}
	wipe := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: all, RangeEnd: all}}}
	point := &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte("k1")}}}
	nested := &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: &pb.TxnRequest{Compare: []*pb.Compare{compare}}}}
	for name, tt := range map[string]struct {
		r    *pb.TxnRequest
		keys int
	}{
		"two comparisons":   {&pb.TxnRequest{Compare: []*pb.Compare{compare, compare}}, 20},
		"read and deleted":  {&pb.TxnRequest{Success: []*pb.RequestOp{read}, Failure: []*pb.RequestOp{wipe}}, 20},
		"compared in three": {&pb.TxnRequest{Compare: []*pb.Compare{compare}, Success: []*pb.RequestOp{nested}, Failure: []*pb.RequestOp{nested}}, 30},
		"some of them":      {&pb.TxnRequest{Compare: []*pb.Compare{compare, {Key: []byte("k3"), RangeEnd: []byte("k7")}}}, 14},
	} {
		if !v.Heavier(tt.r, tt.keys-1) || v.Heavier(tt.r, tt.keys) {
			t.Errorf("%s: heavier than %d keys %t, than %d %t; want it to look at %d", name, tt.keys-1, v.Heavier(tt.r, tt.keys-1), tt.keys, v.Heavier(tt.r, tt.keys), tt.keys)
		}
	}
	for name, r := range map[string]*pb.TxnRequest{
		"one range": {Compare: []*pb.Compare{compare}},
		"points":    {Compare: []*pb.Compare{{Key: []byte("k1")}, {Key: []byte("k2")}}, Success: []*pb.RequestOp{point, point}},
	} {
		if v.Heavier(r, 0) {
			t.Errorf("%s: too heavy", name)
		}
	}
	if (View{}).Heavier(&pb.TxnRequest{Compare: []*pb.Compare{compare, compare}}, 0) {
		t.Error("without a state a transaction is too heavy")
	}
}
