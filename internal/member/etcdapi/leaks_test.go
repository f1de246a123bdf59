package etcdapi

import (
	"context"
	"runtime"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// Calls that watch, for their clients or for themselves, leave no watcher when they have ended:
// a server serves millions of them.
func TestNothingIsWatchedWhenCallsHaveEnded(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	watchers := func(what string, want int) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); s.hub.Stats().Watchers != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d watchers, want %d", what, s.hub.Stats().Watchers, want)
			}
		}
	}
	s.put("l/0", "the holder")
	s.put("e/0", "the leader")
	for _, c := range []struct {
		name string
		call func(ctx context.Context) error // which goes on until its context ends
	}{
		{"a watch", func(ctx context.Context) error {
			stream, err := pb.NewWatchClient(s.conn).Watch(ctx)
			if err == nil {
				err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}})
			}
			for err == nil {
				_, err = stream.Recv()
			}
			return err
		}},
		{"an observer of a leader", func(ctx context.Context) error {
			stream, err := v3electionpb.NewElectionClient(s.conn).Observe(ctx, &v3electionpb.LeaderRequest{Name: []byte("e")})
			for err == nil {
				_, err = stream.Recv()
			}
			return err
		}},
		{"an observer of nobody", func(ctx context.Context) error {
			stream, err := v3electionpb.NewElectionClient(s.conn).Observe(ctx, &v3electionpb.LeaderRequest{Name: []byte("nobody")})
			for err == nil {
				_, err = stream.Recv()
			}
			return err
		}},
		{"a lock that is waited for", func(ctx context.Context) error {
			_, err := v3lockpb.NewLockClient(s.conn).Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l")})
			return err
		}},
	} {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.call(ctx) }()
		watchers(c.name+" is under way", 1)
		end()
		<-ended
		watchers(c.name+" has ended", 0)
	}
}

// contextOnly is a stream of which nothing is asked but its context.
type contextOnly struct {
	grpc.ServerStream
	ctx context.Context
}

func (s contextOnly) Context() context.Context { return s.ctx }

// A stream that has ended is forgotten, though all of them end with EndStreams.
func TestEndedStreamsAreForgotten(t *testing.T) {
	s := New(newFake(t, watch.Config{}), Config{})
	type key struct{}
	freed := make(chan struct{})
	func() {
		big := new([1 << 20]byte)
		runtime.AddCleanup(big, func(freed chan struct{}) { close(freed) }, freed)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, big))
		defer cancel()
		err := s.stream(nil, contextOnly{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: "/etcdserverpb.Watch/Watch"}, func(any, grpc.ServerStream) error { return nil })
		if err != nil {
			t.Error(err)
		}
	}()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(s)
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("a stream has ended, and the server still refers to it")
		}
	}
}
