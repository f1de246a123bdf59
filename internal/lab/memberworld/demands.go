package memberworld

import (
	"context"
	"errors"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// demand is something that no member may grant to a client.
type demand struct {
	name string
	make func(context.Context, *clientv3.Client) error
}

// demands are of all kinds that a client can make grow, and of kinds that make no sense.
var demands = []demand{
	{"a value that is too large", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := pb.NewKVClient(cl.ActiveConnection()).Put(ctx, &pb.PutRequest{Key: []byte("s/large"), Value: make([]byte, 3<<20)}, grpc.MaxCallSendMsgSize(8<<20))
		return err
	}},
	{"a transaction of too many requests", func(ctx context.Context, cl *clientv3.Client) error {
		ops := make([]clientv3.Op, 200)
		for i := range ops {
			ops[i] = clientv3.OpPut("s/many", "x")
		}
		_, err := cl.Txn(ctx).Then(ops...).Commit()
		return err
	}},
	{"two puts of a key in a transaction", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.Txn(ctx).Then(clientv3.OpPut("s/twice", "x"), clientv3.OpPut("s/twice", "y")).Commit()
		return err
	}},
	{"no key", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.Put(ctx, "", "x")
		return err
	}},
	{"a revision of the future", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.Get(ctx, "k/0", clientv3.WithRev(1<<40))
		return err
	}},
	{"a compaction of the future", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.Compact(ctx, 1<<40)
		return err
	}},
	{"a lease that nobody has", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.Put(ctx, "s/leased", "x", clientv3.WithLease(12345))
		return err
	}},
	{"a lease without an end", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.Grant(ctx, math.MaxInt64)
		return err
	}},
	{"the end of a lease that nobody has", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.Revoke(ctx, 12345)
		return err
	}},
	{"a member that is none", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := cl.MemberRemove(ctx, 12345)
		return err
	}},
	{"a member without an address", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := pb.NewClusterClient(cl.ActiveConnection()).MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"nowhere"}})
		return err
	}},
	{"an order that there is not", func(ctx context.Context, cl *clientv3.Client) error {
		_, err := pb.NewKVClient(cl.ActiveConnection()).Range(ctx, &pb.RangeRequest{Key: []byte("k"), SortOrder: 77})
		return err
	}},
}

// askTooMuch makes demands of a host's member. Each has to be refused, with an error that is not
// about the member itself, or fails as any request may.
func (s *stranger) askTooMuch(h *host) {
	cl := s.c.client(s.p.Name(), h)
	defer cl.Close()
	for _, d := range demands {
		ctx, cancel := within(3 * time.Second)
		s.refused(d.name, d.make(ctx, cl))
		cancel()
	}
}

// refused judges the result of a demand.
func (s *stranger) refused(name string, err error) {
	s.c.w.Trace.Add("a client demands %s: %v", name, err)
	code := status.Code(err)
	if etcd := (rpctypes.EtcdError{}); errors.As(err, &etcd) {
		code = etcd.Code()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		code = codes.DeadlineExceeded
	}
	switch code {
	case codes.OK:
		s.c.w.Fail("a client demanded %s, and got it", name)
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unimplemented:
		s.c.w.Fail("a client demanded %s, and that is an error of the member: %v", name, err)
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled: // storms happen
	default:
		s.c.w.Count("demands refused", 1)
	}
}
