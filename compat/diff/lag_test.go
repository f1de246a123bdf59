package diff

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// TestTeethOfMembers has the members of an etcd answer every read from what they
// have, and wants one that lags found.
func TestTeethOfMembers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	a := target(t, ctx, "etcd", server.Config{Kind: server.Etcd})
	defer a.stop()
	b := target(t, ctx, "etcd that does not wait", server.Config{Kind: server.Etcd, Members: 3},
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
			cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if r, ok := req.(*pb.RangeRequest); ok {
				r.Serializable = true
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	defer b.stop()
	err := Compare(ctx, a.Target, b.Target, Generate(1, 3000))
	var mismatch *Mismatch
	if !errors.As(err, &mismatch) {
		t.Fatalf("not found, %v", err)
	}
	t.Logf("found at step %d: %s", mismatch.Index, mismatch.Detail)
}
