package etcd_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// TestOpenGivesUp: where nothing listens, where nobody answers, and where the answer is no. The
// trouble differs, and so does the time for which it makes sense to wait.
func TestOpenGivesUp(t *testing.T) {
	t.Parallel()
	listen := func(t *testing.T) net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	for name, tt := range map[string]struct {
		serve func(t *testing.T, l net.Listener)
		says  string
	}{
		"nothing listens": {func(_ *testing.T, l net.Listener) { l.Close() }, "cannot reach"},
		"nobody answers":  {func(*testing.T, net.Listener) {}, "no answer from"},
		"the answer is no": {func(t *testing.T, l net.Listener) {
			s := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
				return status.Error(codes.PermissionDenied, "not you")
			}))
			go s.Serve(l)
			t.Cleanup(s.Stop)
		}, "answers with an error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			tt.serve(t, l)
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
			defer cancel()
			leaser, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{l.Addr().String()}})
			if err == nil {
				leaser.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error that says %q", err, tt.says)
			}
			if ctx.Err() != nil {
				t.Error("Open waited until its caller gave up, want five seconds at most")
			}
		})
	}
}

// connected counts the connections to a server, and all that there were.
type connected struct{ now, ever atomic.Int64 }

func (c *connected) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *connected) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (c *connected) HandleRPC(context.Context, stats.RPCStats)                         {}
func (c *connected) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		c.now.Add(1)
		c.ever.Add(1)
	case *stats.ConnEnd:
		c.now.Add(-1)
	}
}

// TestOpenLeavesNoConnection: an Open that fails, and a Close, end the connections that Open has
// made. A client that was handed to New stays connected.
func TestOpenLeavesNoConnection(t *testing.T) {
	var n connected
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serves atomic.Bool
	s := grpc.NewServer(grpc.StatsHandler(&n), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if serves.Load() {
			return s.SendMsg(&pb.RangeResponse{})
		}
		return status.Error(codes.PermissionDenied, "not you")
	}))
	go s.Serve(l)
	defer s.Stop()
	cfg := etcd.Config{Endpoints: []string{l.Addr().String()}}
	if leaser, err := etcd.Open(t.Context(), cfg); err == nil {
		leaser.Close()
		t.Error("Open of a server that refuses succeeds")
	}
	if n.ever.Load() == 0 {
		t.Fatal("nobody has connected")
	}
	waitFor(t, "the connection of an Open that failed to end", func() bool { return n.now.Load() == 0 })
	serves.Store(true)
	leaser, err := etcd.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := leaser.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	waitFor(t, "the connection of a Leaser that was closed to end", func() bool { return n.now.Load() == 0 })
	client := plainClient(t, l.Addr().String())
	if err := etcd.New(client, nil).Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := client.Get(t.Context(), "a"); err != nil {
		t.Errorf("the client is the caller's, and after Close of the Leaser it says %v", err)
	}
}
