package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"
)

// member starts a member, alone unless there is another, and returns its address for clients.
func member(t *testing.T, others map[string]string) (s *Server, clients net.Listener) {
	t.Helper()
	clients = listener(t)
	cluster := map[string]string{"a": "http://127.0.0.1:1"}
	cfg := Config{
		Name: "a", DataDir: t.TempDir(), InitialCluster: cluster,
		ClientListeners: []net.Listener{clients}, Logger: slog.New(slog.DiscardHandler),
	}
	for name, url := range others {
		cluster[name] = url
		cfg.PeerListener = listener(t)
		cluster["a"] = "http://" + cfg.PeerListener.Addr().String()
	}
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, clients
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestReadyWaitsForTheCluster: a member whose cluster is not there is not ready, and says so when
// the caller waits no longer.
func TestReadyWaitsForTheCluster(t *testing.T) {
	s, _ := member(t, map[string]string{"b": "http://127.0.0.1:1"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a member of two, the other of which is not there: %v, want that it was not ready in time", err)
	}
	if leader := s.Leader(); leader != 0 {
		t.Errorf("it believes that %d leads, want nobody", leader)
	}
}

// TestShutdownIsGentleAndCloseIsNot: Shutdown ends a client's stream with the error on which clients
// go on at another member; Close cuts the connection. Either way the member takes no more calls.
func TestShutdownIsGentleAndCloseIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(context.Context, *Server) error
		gentle bool
	}{
		"Shutdown": {func(ctx context.Context, s *Server) error { s.Shutdown(ctx); return nil }, true},
		"Close":    {func(_ context.Context, s *Server) error { return s.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, clients := member(t, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := s.Ready(ctx); err != nil {
				t.Fatal(err)
			}
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{clients.Addr().String()}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			watch, err := pb.NewWatchClient(client.ActiveConnection()).Watch(ctx)
			if err != nil {
				t.Fatal(err)
			}
			create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}
			if err := watch.Send(create); err != nil {
				t.Fatal(err)
			}
			if _, err := watch.Recv(); err != nil {
				t.Fatal(err)
			}
			if err := c.end(ctx, s); err != nil || ctx.Err() != nil {
				t.Errorf("%s: %v, %v; want that it ends well, and at once", name, err, ctx.Err())
			}
			_, err = watch.Recv()
			if gentle := status.Convert(err).Message() == status.Convert(rpctypes.ErrGRPCStopped).Message(); gentle != c.gentle {
				t.Errorf("after %s a stream ends with %v, that the server stops: %v, want %v", name, err, gentle, c.gentle)
			}
			if err := clients.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("after %s the listener for clients is still open: closing it says %v", name, err)
			}
			if err := s.Ready(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("after %s the member is said to be ready: %v", name, err)
			}
		})
	}
}
