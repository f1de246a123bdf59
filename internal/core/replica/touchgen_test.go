package replica

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// Requests for tests of what entries touch: few keys and leases, so that they
// meet.

var touchKeys = []string{"a", "a\x00", "b", "c", "d", "e", "f", "g"}

type requests struct{ *rapid.T }

func (g requests) key() []byte { return []byte(rapid.SampledFrom(touchKeys).Draw(g.T, "key")) }

func (g requests) end() []byte {
	return []byte(rapid.SampledFrom([]string{"", "", "", "", "\x00", "b", "c", "e", "a\x00\x00"}).Draw(g.T, "end"))
}

func (g requests) one(in int, what string) bool {
	return rapid.IntRange(1, in).Draw(g.T, what) == 1
}

func (g requests) lease() int64 { return rapid.Int64Range(1, 4).Draw(g.T, "lease") }

func (g requests) put() *pb.PutRequest {
	r := &pb.PutRequest{Key: g.key(), PrevKv: g.one(3, "prev")}
	if r.IgnoreValue = g.one(8, "ignore value"); !r.IgnoreValue {
		r.Value = []byte(rapid.StringN(0, 2, -1).Draw(g.T, "value"))
	}
	if r.IgnoreLease = g.one(8, "ignore lease"); !r.IgnoreLease && g.one(2, "leased") {
		r.Lease = g.lease()
	}
	return r
}

func (g requests) delete() *pb.DeleteRangeRequest {
	return &pb.DeleteRangeRequest{Key: g.key(), RangeEnd: g.end(), PrevKv: g.one(3, "prev")}
}

func (g requests) txn(depth int) *pb.TxnRequest {
	r := new(pb.TxnRequest)
	for range rapid.IntRange(0, 2).Draw(g.T, "compares") {
		c := &pb.Compare{
			Key: g.key(), RangeEnd: g.end(),
			Target: pb.Compare_CompareTarget(rapid.IntRange(0, 4).Draw(g.T, "target")),
			Result: pb.Compare_CompareResult(rapid.IntRange(0, 3).Draw(g.T, "result")),
		}
		switch c.Target {
		case pb.Compare_VERSION:
			c.TargetUnion = &pb.Compare_Version{Version: rapid.Int64Range(0, 2).Draw(g.T, "version")}
		case pb.Compare_LEASE:
			c.TargetUnion = &pb.Compare_Lease{Lease: g.lease()}
		}
		r.Compare = append(r.Compare, c)
	}
	for _, branch := range []*[]*pb.RequestOp{&r.Success, &r.Failure} {
		for range rapid.IntRange(0, 2).Draw(g.T, "ops") {
			*branch = append(*branch, g.op(depth))
		}
	}
	return r
}

func (g requests) op(depth int) *pb.RequestOp {
	switch rapid.IntRange(0, 4+min(depth, 1)).Draw(g.T, "op") {
	case 0, 1:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: g.put()}}
	case 2:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: g.delete()}}
	case 3, 4:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: g.key(), RangeEnd: g.end()}}}
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: g.txn(depth - 1)}}
}

// body is any request as the log has it.
func (g requests) body() []byte {
	switch rapid.IntRange(0, 12).Draw(g.T, "request") {
	case 0, 1, 2, 3:
		return bodyOf(g, kindPut, g.put())
	case 4:
		return bodyOf(g, kindDeleteRange, g.delete())
	case 5, 6, 7:
		return bodyOf(g, kindTxn, g.txn(2))
	case 8, 9:
		return bodyOf(g, kindGrant, &pb.LeaseGrantRequest{ID: g.lease(), TTL: 60})
	case 10:
		return bodyOf(g, kindRevoke, &pb.LeaseRevokeRequest{ID: g.lease()})
	case 11:
		kind := rapid.SampledFrom([]byte{kindExpire, kindExpire, kindCheckpoint}).Draw(g.T, "kind")
		return bodyOf(g, kind, &pb.LeaseCheckpointRequest{Checkpoints: []*pb.LeaseCheckpoint{{ID: g.lease()}, {ID: g.lease()}}})
	}
	if g.one(3, "compact") {
		return bodyOf(g, kindCompact, &pb.CompactionRequest{Revision: 2})
	}
	return mergedOp(g, &pb.PutRequest{Key: g.key()}, &pb.PutRequest{Lease: g.lease()})
}

// mergedOp is a transaction with an operation that nobody writes, but that can be
// read: it is merged from two.
func mergedOp(t fataler, one, other *pb.PutRequest) []byte {
	op := bodyOf(t, kindTxn, putOp(one))[1:]
	op = append(op, bodyOf(t, kindTxn, putOp(other))[1:]...)
	return protowire.AppendBytes([]byte{kindTxn, 2<<3 | byte(protowire.BytesType)}, op)
}

type fataler interface{ Fatal(...any) }

func bodyOf(t fataler, kind byte, m proto.Message) []byte {
	p, err := encodeRequest(kind, m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// entryOf is an entry of term 1 with these requests, of member 1 in its life 1.
func entryOf(index uint64, bodies ...[]byte) *raftpb.Entry {
	b := &batch{Term: 1, From: 1, Boot: 1}
	for i, body := range bodies {
		b.Requests = append(b.Requests, Propose{ID: uint64(i + 1), Body: body})
	}
	term := uint64(1)
	return &raftpb.Entry{Index: &index, Term: &term, Data: b.encode()}
}

// apply applies entries, and gives the keys that they changed, the leases that began
// or ended, and what was answered.
func apply(t fataler, a *Applier, entries ...*raftpb.Entry) (keys []string, leases []int64, answers []Result) {
	a.Take()
	before := a.Store().Revision()
	for _, e := range entries {
		if err := a.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	events, err := a.Store().View().Events(before + 1)
	if err != nil {
		t.Fatal(err)
	}
	for ev := range events {
		keys = append(keys, string(ev.KV.Key))
	}
	report, answers := a.Take()
	for _, c := range report.Leases {
		if c.Kind != leaseCheckpointed {
			leases = append(leases, c.ID)
		}
	}
	return keys, leases, answers
}
