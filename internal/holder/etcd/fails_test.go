package etcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// claims are the two ways to claim a name.
var claims = map[string]func(*etcd.Leaser, context.Context, tenure.Claim) (tenure.Lease, error){
	"Acquire": (*etcd.Leaser).Acquire, "TryAcquire": (*etcd.Leaser).TryAcquire,
}

// TestFailuresLeaveNothing: any one of the calls that a claim takes may be refused, or its answer
// may be an error although the server has done it. Then nothing of the claim stays in the queue.
// Keys that are in no queue stand before it, so that the claim takes a second look; without a
// failure it is admitted.
func TestFailuresLeaveNothing(t *testing.T) {
	server := endpoint(t)
	plain := plainClient(t, server)
	for _, key := range []string{"/config", "/sub/12ab"} {
		if _, err := plain.Put(t.Context(), t.Name()+key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for _, done := range []bool{false, true} { // by the server
		for _, slots := range []int{1, tenure.Shared} {
			for name, claim := range claims {
				admitted := false
				for fails := 1; !admitted; fails++ {
					what := fmt.Sprintf("%s for %d slots, whose call %d fails (the server has done it: %v)", name, slots, fails, done)
					failed := ""
					n := 0
					l := etcd.New(plainClient(t, server, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
						if method == "/etcdserverpb.Lease/LeaseRevoke" {
							return call(ctx, method, req, reply, cc, opts...)
						}
						if n++; n != fails {
							return call(ctx, method, req, reply, cc, opts...)
						}
						failed = method
						if done {
							if err := call(ctx, method, req, reply, cc, opts...); err != nil {
								return err
							}
						}
						return status.Error(codes.Internal, "this call fails")
					}), nil)
					lease, err := claim(l, t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute, Slots: slots})
					switch admitted = failed == ""; {
					case admitted && err != nil:
						t.Fatalf("%s: no call has failed, and the claim was not admitted: %v", what, err)
					case admitted:
						if err := lease.Release(t.Context()); err != nil {
							t.Error(err)
						}
					case status.Code(err) != codes.Internal:
						t.Errorf("%s: %v, want the error of %s", what, err, failed)
					}
					waitFor(t, "the queue to be empty again behind "+what, func() bool { return queued(t, plain) == 2 })
					l.Close()
					if fails > 10 {
						t.Fatalf("%s: it takes more than ten calls", what)
					}
				}
			}
		}
	}
}

// TestLeaseEndsBeforeItQueuesUp: a partition may last longer than the lease that was granted just
// before it. The claim then queues up with another lease.
func TestLeaseEndsBeforeItQueuesUp(t *testing.T) {
	server := endpoint(t)
	plain := plainClient(t, server)
	for name, claim := range claims {
		ended := 0
		l := etcd.New(plainClient(t, server, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method == "/etcdserverpb.KV/Txn" && ended < 2 {
				ended++
				put := req.(*pb.TxnRequest).Success[0].GetRequestPut()
				if _, err := plain.Revoke(ctx, clientv3.LeaseID(put.Lease)); err != nil {
					t.Error(err)
				}
			}
			return call(ctx, method, req, reply, cc, opts...)
		}), nil)
		lease, err := claim(l, t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute})
		if err != nil || ended != 2 {
			t.Fatalf("%s, whose lease ended %d times before it was queued: %v", name, ended, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
