package kv

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// reader reads keys at revisions from compact to revision.
type reader struct {
	keys     *keyTree
	revision int64
	compact  int64
}

// at gives the revision that a request reads: zero and less mean the newest.
func (r reader) at(rev int64) (int64, error) {
	switch {
	case rev > r.revision:
		return 0, ErrFutureRevision
	case rev <= 0:
		return r.revision, nil
	case rev < r.compact:
		return 0, ErrCompacted
	}
	return rev, nil
}

// rangeKeys answers a request that was checked.
func (r reader) rangeKeys(q *pb.RangeRequest) (*rangeReply, error) {
	rev, err := r.at(q.Revision)
	if err != nil {
		return nil, err
	}
	out := new(rangeReply)
	out.header.Revision = r.revision
	resp := &out.response
	resp.Header = &out.header
	if q.CountOnly {
		scan(r.keys, q.Key, q.RangeEnd, func(it *item) bool {
			if it.at(rev) != nil {
				resp.Count++
			}
			return true
		})
		return out, nil
	}

	filtered := q.MinModRevision != 0 || q.MaxModRevision != 0 || q.MinCreateRevision != 0 || q.MaxCreateRevision != 0
	enough := enoughFor(q, filtered)
	first := q.Limit == 1 && enough == math.MaxInt64 // of those sorted, which need not be collected
	compare := comparison(q.SortTarget)
	if q.SortOrder == pb.RangeRequest_DESCEND {
		ascending := compare
		compare = func(a, b *mvccpb.KeyValue) int { return ascending(b, a) }
	}
	var kvs []*mvccpb.KeyValue
	scan(r.keys, q.Key, q.RangeEnd, func(it *item) bool {
		full := int64(len(kvs)) >= enough
		v := it.at(rev)
		if v == nil {
			return true
		}
		resp.Count++ // before filters and limit
		if full || filtered && !passes(q, &v.kv) {
			return true
		}
		switch {
		case !first || len(kvs) == 0:
			kvs = append(kvs, &v.kv)
		case compare(&v.kv, kvs[0]) < 0: // of equals the first in the order of keys
			kvs[0], resp.More = &v.kv, true
		default:
			resp.More = true
		}
		return true
	})
	if !first {
		order(kvs, q.SortTarget, q.SortOrder)
	}
	if q.Limit > 0 && int64(len(kvs)) > q.Limit {
		kvs = kvs[:q.Limit]
		resp.More = true
	}
	if q.KeysOnly {
		kvs = withoutValues(kvs, q.SortTarget == pb.RangeRequest_VALUE)
	}
	resp.Kvs = kvs
	return out, nil
}

// enoughFor returns how many keys to collect: one more than the limit, to find out if there
// are more. Filters and sorting need all, except that (as in etcd) a target without an
// order sorts only the first keys up to the limit.
func enoughFor(q *pb.RangeRequest, filtered bool) int64 {
	byKey := q.SortOrder == pb.RangeRequest_NONE ||
		q.SortTarget == pb.RangeRequest_KEY && q.SortOrder == pb.RangeRequest_ASCEND
	if q.Limit <= 0 || q.Limit == math.MaxInt64 || filtered || !byKey {
		return math.MaxInt64
	}
	return q.Limit + 1
}

func passes(q *pb.RangeRequest, kv *mvccpb.KeyValue) bool {
	return (q.MinModRevision == 0 || kv.ModRevision >= q.MinModRevision) &&
		(q.MaxModRevision == 0 || kv.ModRevision <= q.MaxModRevision) &&
		(q.MinCreateRevision == 0 || kv.CreateRevision >= q.MinCreateRevision) &&
		(q.MaxCreateRevision == 0 || kv.CreateRevision <= q.MaxCreateRevision)
}

// order sorts kvs, which are ordered by key. A target other than the key without
// an order ascends. The sort is not stable, as in etcd, so ties in large results
// come in no particular (but always the same) order.
func order(kvs []*mvccpb.KeyValue, target pb.RangeRequest_SortTarget, order pb.RangeRequest_SortOrder) {
	if target == pb.RangeRequest_KEY && order != pb.RangeRequest_DESCEND {
		return
	}
	compare := comparison(target)
	if order == pb.RangeRequest_DESCEND {
		slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return compare(b, a) })
		return
	}
	slices.SortFunc(kvs, compare)
}

func comparison(target pb.RangeRequest_SortTarget) func(a, b *mvccpb.KeyValue) int {
	switch target {
	case pb.RangeRequest_VERSION:
		return func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) }
	case pb.RangeRequest_CREATE:
		return func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }
	case pb.RangeRequest_MOD:
		return func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) }
	case pb.RangeRequest_VALUE:
		return func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) }
	default:
		return func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) }
	}
}

// withoutValues copies kvs for keys_only. etcd 3.7 answers such a request from its
// index, which knows no leases, unless it had to sort by value.
func withoutValues(kvs []*mvccpb.KeyValue, lease bool) []*mvccpb.KeyValue {
	bare := make([]mvccpb.KeyValue, len(kvs))
	for i, kv := range kvs {
		b := &bare[i]
		b.Key, b.CreateRevision, b.ModRevision, b.Version = kv.Key, kv.CreateRevision, kv.ModRevision, kv.Version
		if lease {
			b.Lease = kv.Lease
		}
		kvs[i] = b
	}
	return kvs
}
