package kv

import (
	"fmt"
	"iter"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Raise makes a Store of a view's keys and leases at a revision that is greater by some. The history before
// that counts as compacted, so watches begin anew. Each lease has its whole TTL: of one that was renewed,
// the view may lack the end of its checkpoint. The Store keeps the view's key-values.
func Raise(v View, by int64) (*Store, error) {
	if by < 1 || v.Revision() > maxRevision-by {
		return nil, fmt.Errorf("kv: revision %d is not raised by %d", v.Revision(), by)
	}
	all, err := v.Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if err != nil {
		return nil, err
	}
	raised := v.Revision() + by
	return Build(Content{Revision: raised, Compact: raised, Raised: true, Base: slices.Values(all.Kvs), Events: none[*mvccpb.KeyValue], Leases: whole(v.Leases())})
}

// none yields nothing.
func none[T any](func(T) bool) {}

// whole gives leases their whole TTL.
func whole(leases iter.Seq[LeaseInfo]) iter.Seq[LeaseInfo] {
	return func(yield func(LeaseInfo) bool) {
		for l := range leases {
			if l.Remaining = 0; !yield(l) {
				return
			}
		}
	}
}
