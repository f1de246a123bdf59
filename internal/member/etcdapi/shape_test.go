package etcdapi

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// A request that cannot be is refused here: the members have no entry of their log for it.
func TestWhatCannotBeIsNotReplicated(t *testing.T) {
	f := newFake(t, watch.Config{})
	f.proposed = func(r proto.Message) { t.Errorf("%T was replicated: %v", r, r) }
	s := New(f, Config{MaxRequestBytes: 1000, MaxTxnOps: 3})
	kvs, leases, locks := &kvServer{Server: s}, &leaseServer{Server: s}, &lockServer{Server: s}
	a := []byte("a")
	txn := func(ops ...*pb.RequestOp) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kvs.Txn(ctx, &pb.TxnRequest{Failure: ops})
			return err
		}
	}
	for _, c := range []struct {
		name string
		call func(context.Context) error
		want error
	}{
		{"a put without a key", func(ctx context.Context) error { _, err := kvs.Put(ctx, &pb.PutRequest{}); return err }, rpctypes.ErrGRPCEmptyKey},
		{"a delete without a key", func(ctx context.Context) error {
			_, err := kvs.DeleteRange(ctx, &pb.DeleteRangeRequest{})
			return err
		}, rpctypes.ErrGRPCEmptyKey},
		{"a transaction of too many", txn(putOp(a, nil, 0), putOp([]byte("b"), nil, 0), putOp([]byte("c"), nil, 0), putOp([]byte("d"), nil, 0)), rpctypes.ErrGRPCTooManyOps},
		{"a transaction that puts twice", txn(putOp(a, nil, 0), putOp(a, nil, 0)), rpctypes.ErrGRPCDuplicateKey},
		{"a lease for too long", func(ctx context.Context) error {
			_, err := leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 9_000_000_001})
			return err
		}, rpctypes.ErrGRPCLeaseTTLTooLarge},
		{"an unlock without a key", func(ctx context.Context) error {
			_, err := locks.Unlock(ctx, &v3lockpb.UnlockRequest{})
			return err
		}, rpctypes.ErrGRPCEmptyKey},
		{"a put too large", func(ctx context.Context) error {
			_, err := kvs.Put(ctx, &pb.PutRequest{Key: a, Value: make([]byte, 1000)})
			return err
		}, rpctypes.ErrGRPCRequestTooLarge},
	} {
		if err := c.call(t.Context()); !same(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// A request of just the limit is taken, and one of a byte more is not; what fits into the quota to
// the last byte is taken, too.
func TestRequestsAtTheirBounds(t *testing.T) {
	put := &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 100)}
	f := newFake(t, watch.Config{})
	size, used := int64(proto.Size(put)), f.View().Stats().Bytes
	for name, tt := range map[string]struct {
		c    Config
		want error
	}{
		"as large as may be":         {Config{MaxRequestBytes: int(size)}, nil},
		"a byte larger":              {Config{MaxRequestBytes: int(size) - 1}, rpctypes.ErrGRPCRequestTooLarge},
		"as much as the quota":       {Config{QuotaBytes: used + size}, nil},
		"a byte more than the quota": {Config{QuotaBytes: used + size - 1}, rpctypes.ErrGRPCNoSpace},
	} {
		kvs := &kvServer{Server: New(newFake(t, watch.Config{}), tt.c)}
		if _, err := kvs.Put(t.Context(), put); tt.want == nil && err != nil || tt.want != nil && !same(err, tt.want) {
			t.Errorf("a put %s: %v, want %v", name, err, tt.want)
		}
	}
}
