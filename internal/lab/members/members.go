// Package members starts clusters of the lease server in the process of a test, over loopback and with
// their logs on disk.
package members

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// Start starts members of some names, which serve when it returns and end with the test. The addresses of
// their clients are in the order of the names.
func Start(t testing.TB, names ...string) (members map[string]*server.Server, endpoints []string) {
	t.Helper()
	peers, peerListeners := map[string]string{}, map[string]net.Listener{}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, name := range names {
		peerListeners[name] = listen()
		peers[name] = "http://" + peerListeners[name].Addr().String()
	}
	members = map[string]*server.Server{}
	for _, name := range names {
		clients := listen()
		endpoints = append(endpoints, clients.Addr().String())
		s, err := server.Start(server.Config{
			Node: node.Config{
				Name: name, DataDir: t.TempDir(), Peers: peers, PeerListener: peerListeners[name],
				ClientURLs: []string{"http://" + clients.Addr().String()}, Logger: slog.New(slog.DiscardHandler),
			},
			Clients: []net.Listener{clients},
		})
		if err != nil {
			t.Fatal(err)
		}
		members[name] = s
		t.Cleanup(s.Stop)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for name, s := range members {
		if err := s.Node.Ready(ctx); err != nil {
			t.Fatalf("member %s: %v", name, err)
		}
	}
	return members, endpoints
}
