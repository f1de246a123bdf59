package kv

import (
	"bytes"
	"cmp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// noKey is what a comparison sees when its range holds no key.
var noKey mvccpb.KeyValue

// holds reports whether all comparisons hold in the newest state, and at how many it looked.
func (r reader) holds(compares []*pb.Compare) (ok bool, looked int) {
	for i, c := range compares {
		if !r.compare(c) {
			return false, i + 1
		}
	}
	return true, len(compares)
}

// compare reports whether c holds for every key of its range. Without a key it
// compares with zeros, and a comparison of values fails: there is no way to say
// "no value" in a request.
func (r reader) compare(c *pb.Compare) bool {
	found, ok := false, true
	scan(r.keys, c.Key, c.RangeEnd, func(it *item) bool {
		if v := it.at(r.revision); v != nil {
			found = true
			ok = satisfies(&v.kv, c)
		}
		return ok
	})
	if !found {
		return c.Target != pb.Compare_VALUE && satisfies(&noKey, c)
	}
	return ok
}

// satisfies compares one key-value. A field that the target does not name is compared with
// zero. Results and targets that do not exist hold and are equal, as in etcd.
func satisfies(kv *mvccpb.KeyValue, c *pb.Compare) bool {
	var sign int
	switch c.Target {
	case pb.Compare_VALUE:
		sign = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		sign = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		sign = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		sign = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		sign = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return sign == 0
	case pb.Compare_NOT_EQUAL:
		return sign != 0
	case pb.Compare_GREATER:
		return sign > 0
	case pb.Compare_LESS:
		return sign < 0
	}
	return true
}
