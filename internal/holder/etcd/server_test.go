package etcd_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// testServer is a Tenure server in this process.
type testServer struct {
	addr, dir string
	server    *server.Server
}

func startServer(t testing.TB) *testServer {
	s := &testServer{addr: "127.0.0.1:0", dir: t.TempDir()}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Stop() })
	return s
}

func (s *testServer) start() error {
	listener, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.addr = listener.Addr().String()
	s.server, err = server.Start(server.Config{
		Node: node.Config{
			Name: "a", DataDir: s.dir, Peers: map[string]string{"a": "http://127.0.0.1:1"}, // it has no peers to talk to
			ClientURLs: []string{"http://" + s.addr},
			Logger:     slog.New(slog.DiscardHandler),
		},
		Clients: []net.Listener{listener},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.server.Node.Ready(ctx)
}

// restart starts the server anew from its disk, at the same address.
func (s *testServer) restart() error {
	s.server.Stop()
	return s.start()
}
