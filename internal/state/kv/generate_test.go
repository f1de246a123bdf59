package kv

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"
)

// The generators draw from few keys, leases and revisions, so that requests meet.

var (
	someKeys   = []string{"\x00", "a", "a\x00", "ab", "b", "c", "d", "e", "z", "\xff"}
	someEnds   = []string{"", "", "", "\x00", "a", "b", "c", "e", "\xff"}
	someValues = []string{"", "1", "2", "2", "3"}
)

type generator struct {
	*rapid.T
	revision int64
}

// key is empty now and then, which is refused.
func (g generator) key() []byte {
	if g.rarely("no key") {
		return nil
	}
	return []byte(rapid.SampledFrom(someKeys).Draw(g.T, "key"))
}

func (g generator) end() []byte {
	if e := rapid.SampledFrom(someEnds).Draw(g.T, "end"); e != "" {
		return []byte(e)
	}
	return nil
}

func (g generator) value() []byte { return []byte(rapid.SampledFrom(someValues).Draw(g.T, "value")) }

func (g generator) sometimes(what string) bool { return rapid.IntRange(0, 3).Draw(g.T, what) == 0 }
func (g generator) rarely(what string) bool    { return rapid.IntRange(0, 40).Draw(g.T, what) == 40 }

func (g generator) lease() int64 { return rapid.Int64Range(0, 4).Draw(g.T, "lease") }

// aRevision is one that a read asks for: mostly none, else one of the past, or
// a little off.
func (g generator) aRevision() int64 {
	if !g.sometimes("old revision") {
		return 0
	}
	return rapid.Int64Range(-2, g.revision+2).Draw(g.T, "revision")
}

func (g generator) bound() int64 {
	if !g.sometimes("bound") {
		return 0
	}
	return rapid.Int64Range(-1, g.revision+1).Draw(g.T, "bound")
}

func (g generator) rangeRequest() *pb.RangeRequest {
	r := &pb.RangeRequest{Key: g.key(), RangeEnd: g.end(), Revision: g.aRevision()}
	if g.sometimes("limit") {
		r.Limit = rapid.Int64Range(-1, 5).Draw(g.T, "limit")
	}
	if g.sometimes("sort") {
		r.SortTarget = pb.RangeRequest_SortTarget(rapid.IntRange(0, 4).Draw(g.T, "target"))
		r.SortOrder = pb.RangeRequest_SortOrder(rapid.IntRange(0, 2).Draw(g.T, "order"))
	}
	if g.rarely("bad sort") {
		r.SortOrder = 3
	}
	r.KeysOnly = g.sometimes("keys only")
	r.CountOnly = g.rarely("count only")
	if g.sometimes("filters") {
		r.MinModRevision, r.MaxModRevision = g.bound(), g.bound()
		r.MinCreateRevision, r.MaxCreateRevision = g.bound(), g.bound()
	}
	return r
}

func (g generator) putRequest() *pb.PutRequest {
	r := &pb.PutRequest{Key: g.key(), PrevKv: g.sometimes("prev")}
	if r.IgnoreValue = g.rarely("ignore value"); !r.IgnoreValue || g.rarely("both") {
		r.Value = g.value()
	}
	if r.IgnoreLease = g.rarely("ignore lease"); !r.IgnoreLease || g.rarely("both") {
		if g.sometimes("leased") {
			r.Lease = g.lease()
		}
	}
	return r
}

func (g generator) deleteRequest() *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: g.key(), RangeEnd: g.end(), PrevKv: g.sometimes("prev")}
}

func (g generator) compare() *pb.Compare {
	c := &pb.Compare{
		Key:      g.key(),
		RangeEnd: g.end(),
		Target:   pb.Compare_CompareTarget(rapid.IntRange(0, 4).Draw(g.T, "target")),
		Result:   pb.Compare_CompareResult(rapid.IntRange(0, 3).Draw(g.T, "result")),
	}
	small := rapid.Int64Range(0, 3).Draw(g.T, "number")
	rev := rapid.Int64Range(0, g.revision+1).Draw(g.T, "revision")
	switch c.Target {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: small}
	case pb.Compare_LEASE:
		c.TargetUnion = &pb.Compare_Lease{Lease: small}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: rev}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: rev}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: g.value()}
	}
	if g.rarely("no target") {
		c.TargetUnion = nil
	}
	return c
}

func (g generator) txnRequest(depth int) *pb.TxnRequest {
	r := &pb.TxnRequest{}
	for range rapid.IntRange(0, 2).Draw(g.T, "compares") {
		r.Compare = append(r.Compare, g.compare())
	}
	for range rapid.IntRange(0, 3).Draw(g.T, "success ops") {
		r.Success = append(r.Success, g.op(depth))
	}
	for range rapid.IntRange(0, 2).Draw(g.T, "failure ops") {
		r.Failure = append(r.Failure, g.op(depth))
	}
	return r
}

func (g generator) op(depth int) *pb.RequestOp {
	if g.rarely("no request") {
		return &pb.RequestOp{}
	}
	kinds := 5
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds).Draw(g.T, "op") {
	case 0, 1:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: g.rangeRequest()}}
	case 2, 3:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: g.putRequest()}}
	case 4:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: g.deleteRequest()}}
	default:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: g.txnRequest(depth - 1)}}
	}
}
