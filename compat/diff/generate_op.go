package diff

import (
	"bytes"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func (g *generator) put() *pb.PutRequest {
	req := &pb.PutRequest{Key: g.key(), Value: g.value(), PrevKv: g.percent(30)}
	if g.percent(25) {
		req.Lease = g.lease()
	}
	if g.percent(8) {
		req.IgnoreValue = true
		if g.percent(80) {
			req.Value = nil
		}
	}
	if g.percent(8) {
		req.IgnoreLease = true
		if g.percent(80) {
			req.Lease = 0
		}
	}
	return req
}

func (g *generator) deleteRange() *pb.DeleteRangeRequest {
	req := &pb.DeleteRangeRequest{Key: g.key(), PrevKv: g.percent(50)}
	if g.percent(35) {
		req.RangeEnd = g.end(req.Key)
	}
	return req
}

func (g *generator) rangeRequest() *pb.RangeRequest {
	req := &pb.RangeRequest{
		Key:          g.key(),
		Serializable: g.percent(30),
		KeysOnly:     g.percent(15),
		CountOnly:    g.percent(10),
	}
	req.RangeEnd = g.end(req.Key)
	if g.percent(5) {
		req.Key = []byte{0} // with a range end of {0}: all
	}
	if g.percent(35) {
		req.Limit = pick[int64](g, 1, 2, 3, 5, 100, -1, 1<<62, 1<<63-1)
	}
	if g.percent(35) {
		req.Revision = g.revision()
	}
	if g.percent(30) {
		req.SortOrder = pb.RangeRequest_SortOrder(g.IntN(3))
		req.SortTarget = pb.RangeRequest_SortTarget(g.IntN(5))
		if g.percent(5) {
			req.SortOrder = pick[pb.RangeRequest_SortOrder](g, 3, -1, 77)
		}
		if g.percent(5) {
			req.SortTarget = pick[pb.RangeRequest_SortTarget](g, 5, -1, 77)
		}
	}
	for _, bound := range []*int64{
		&req.MinModRevision, &req.MaxModRevision, &req.MinCreateRevision, &req.MaxCreateRevision,
	} {
		if g.percent(6) {
			*bound = g.revision()
		}
	}
	return req
}

// txn is mostly valid; now and then it puts a key twice, has too many
// operations, an empty one, or an unknown target.
func (g *generator) txn(depth int) *pb.TxnRequest {
	req := &pb.TxnRequest{}
	for range g.IntN(4) {
		req.Compare = append(req.Compare, g.compare())
	}
	req.Success = g.branch(depth)
	req.Failure = g.branch(depth)
	if depth == 0 && g.percent(2) {
		// 128 operations are allowed, counted along the deepest path.
		for range 125 + g.IntN(8) {
			req.Success = append(req.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{
				RequestRange: &pb.RangeRequest{Key: []byte("a")},
			}})
		}
	}
	if depth == 0 && deletesFromKey(req) {
		dropIgnores(req)
	}
	return req
}

// deletesFromKey looks for a delete of all keys from one on. etcd does not see that it
// overlaps with a put of the same branch. It panics when that put is to keep the lease or
// the value of a key that it has just deleted. All members do, and again at each start.
func deletesFromKey(t *pb.TxnRequest) bool {
	return anyOp(t, func(op *pb.RequestOp) bool {
		return bytes.Equal(op.GetRequestDeleteRange().GetRangeEnd(), []byte{0})
	})
}

func dropIgnores(t *pb.TxnRequest) {
	anyOp(t, func(op *pb.RequestOp) bool {
		if put := op.GetRequestPut(); put != nil {
			put.IgnoreLease, put.IgnoreValue = false, false
		}
		return false
	})
}

// anyOp calls f for the operations at every depth until one is true.
func anyOp(t *pb.TxnRequest, f func(*pb.RequestOp) bool) bool {
	for _, op := range slices.Concat(t.Success, t.Failure) {
		if f(op) || op.GetRequestTxn() != nil && anyOp(op.GetRequestTxn(), f) {
			return true
		}
	}
	return false
}

func (g *generator) branch(depth int) (ops []*pb.RequestOp) {
	used := map[string]bool{}
	for range g.IntN(5) {
		op := &pb.RequestOp{}
		switch w := g.IntN(100); {
		case w < 40:
			put := g.put()
			if used[string(put.Key)] && g.percent(95) {
				continue
			}
			used[string(put.Key)] = true
			op.Request = &pb.RequestOp_RequestPut{RequestPut: put}
		case w < 70:
			op.Request = &pb.RequestOp_RequestRange{RequestRange: g.rangeRequest()}
		case w < 80:
			op.Request = &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: g.deleteRange()}
		case w < 98:
			if depth == 3 {
				continue
			}
			op.Request = &pb.RequestOp_RequestTxn{RequestTxn: g.txn(depth + 1)}
		case g.percent(50): // an operation of no kind
		}
		ops = append(ops, op)
	}
	return ops
}

func (g *generator) compare() *pb.Compare {
	c := &pb.Compare{
		Result: pb.Compare_CompareResult(g.IntN(4)),
		Target: pb.Compare_CompareTarget(g.IntN(5)),
		Key:    g.key(),
	}
	if g.percent(30) {
		c.RangeEnd = g.end(c.Key)
	}
	operand := c.Target
	if g.percent(4) {
		operand = pb.Compare_CompareTarget(g.IntN(5)) // not of the target's kind
	}
	switch operand {
	case pb.Compare_VERSION:
		c.TargetUnion = &pb.Compare_Version{Version: g.Int64N(4)}
	case pb.Compare_CREATE:
		c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: pick(g, 0, g.revision())}
	case pb.Compare_MOD:
		c.TargetUnion = &pb.Compare_ModRevision{ModRevision: pick(g, 0, g.revision())}
	case pb.Compare_VALUE:
		c.TargetUnion = &pb.Compare_Value{Value: fmt.Appendf(nil, "v%d", g.IntN(30))}
	case pb.Compare_LEASE:
		lease := pick(g, 0, g.lease())
		if c.Result == pb.Compare_LESS || c.Result == pb.Compare_GREATER {
			lease = g.Int64N(9) // the ids that servers choose have no common order
		}
		c.TargetUnion = &pb.Compare_Lease{Lease: lease}
	}
	switch {
	case g.percent(1):
		c.Target = pick[pb.Compare_CompareTarget](g, 5, -1)
	case g.percent(1):
		c.Result = pick[pb.Compare_CompareResult](g, 4, -1)
	case g.percent(2):
		c.TargetUnion = nil
	}
	return c
}

func (g *generator) watch() *pb.WatchRequest {
	switch w := g.IntN(100); {
	case w < 60:
		create := &pb.WatchCreateRequest{
			Key:            g.key(),
			PrevKv:         g.percent(40),
			ProgressNotify: g.percent(10),
			Fragment:       g.percent(20),
		}
		create.RangeEnd = g.end(create.Key)
		if g.percent(50) {
			create.StartRevision = g.revision()
		}
		if g.percent(30) {
			create.WatchId = g.Int64N(7)
		}
		for range pick(g, 0, 0, 0, 1, 1, 2) {
			create.Filters = append(create.Filters, pick[pb.WatchCreateRequest_FilterType](g, 0, 1, 1, 7))
		}
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
	case w < 85:
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{
			CancelRequest: &pb.WatchCancelRequest{WatchId: g.Int64N(9)},
		}}
	case w < 98:
		return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{
			ProgressRequest: &pb.WatchProgressRequest{},
		}}
	default:
		return &pb.WatchRequest{}
	}
}
