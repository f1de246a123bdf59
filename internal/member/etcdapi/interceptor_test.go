package etcdapi

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// A client whose version is no text is refused by calls and streams alike, before they do anything.
func TestAVersionThatIsNoTextIsRefused(t *testing.T) {
	s := New(newFake(t, watch.Config{}), Config{})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("client-api-version", "\xff"))
	_, unary := s.unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Put"}, func(context.Context, any) (any, error) {
		t.Error("the call was handled")
		return nil, nil
	})
	stream := s.stream(nil, contextOnly{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/etcdserverpb.Watch/Watch"}, func(any, grpc.ServerStream) error {
		t.Error("the stream was handled")
		return nil
	})
	for what, err := range map[string]error{"a call": unary, "a stream": stream} {
		if err != rpctypes.ErrGRPCInvalidClientAPIVersion {
			t.Errorf("%s of such a client: %v, want %v", what, err, rpctypes.ErrGRPCInvalidClientAPIVersion)
		}
	}
}

// Only who says that he requires a leader is refused without one, and gRPC's own services answer
// all the same: who looks after a member asks for its health by a client of etcd's.
func TestWhoRequiresALeader(t *testing.T) {
	s := serve(t, Config{ElectionTimeout: time.Hour}, watch.Config{})
	s.loseLeader(time.Hour)
	get := &pb.RangeRequest{Key: []byte("a"), Serializable: true}
	if _, err := s.kv().Range(metadata.AppendToOutgoingContext(t.Context(), "hasleader", "false"), get); err != nil {
		t.Errorf("a call that says that it requires no leader: %v", err)
	}
	ctx := clientv3.WithRequireLeader(t.Context())
	if _, err := s.kv().Range(ctx, get); !same(err, rpctypes.ErrGRPCNoLeader) {
		t.Errorf("a call that requires a leader: %v, want %v", err, rpctypes.ErrGRPCNoLeader)
	}
	if _, err := grpc_health_v1.NewHealthClient(s.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health without a leader: %v", err)
	}
	r, err := grpc_reflection_v1.NewServerReflectionClient(s.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	list := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
	if err := r.Send(list); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recv(); err != nil {
		t.Errorf("reflection without a leader: %v", err)
	}
	if err := r.CloseSend(); err != nil {
		t.Fatal(err)
	}
}

// A stream that requires a leader is looked after while it goes on, and no longer.
func TestAStreamThatHasEndedIsLookedAfterNoLonger(t *testing.T) {
	s := New(newFake(t, watch.Config{}), Config{ElectionTimeout: time.Hour})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("hasleader", "true"))
	guarded := func() int {
		s.leaderless.mu.Lock()
		defer s.leaderless.mu.Unlock()
		return len(s.leaderless.streams)
	}
	err := s.stream(nil, contextOnly{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/etcdserverpb.Watch/Watch"}, func(any, grpc.ServerStream) error {
		if n := guarded(); n != 1 {
			t.Errorf("%d streams are looked after while one goes on that requires a leader, want it", n)
		}
		return nil
	})
	if n := guarded(); err != nil || n != 0 {
		t.Errorf("%d streams are looked after when the only one has ended, %v; want none", n, err)
	}
}
