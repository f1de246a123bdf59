package etcd_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/etcd"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// serve starts a server of one member, and returns its address.
func serve(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(server.Config{
		Node: node.Config{
			Name: "a", DataDir: t.TempDir(), Peers: map[string]string{"a": "http://127.0.0.1:1"},
			ClientURLs: []string{"http://" + listener.Addr().String()}, Logger: slog.New(slog.DiscardHandler),
		},
		Clients: []net.Listener{listener},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if err := s.Node.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// A Leaser takes, lists and releases leases, whether it has a client of its own or its caller's.
// Close leaves the caller's client open.
func TestLeases(t *testing.T) {
	addr := serve(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	own, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]tenure.Leaser{"its own client": own, "its caller's client": etcd.New(client)} {
		lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "job"})
		if err != nil {
			t.Fatalf("with %s: %v", name, err)
		}
		if names, err := l.(tenure.Lister).List(t.Context(), "j"); err != nil || len(names) != 1 || names[0] != "job" {
			t.Errorf("with %s it lists %q, %v; want the name that it holds", name, names, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("with %s: %v", name, err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("with %s: %v", name, err)
		}
	}
	if _, err := client.Get(t.Context(), "job"); err != nil {
		t.Errorf("after Close the caller's client says %v", err)
	}
}

// Open returns no Leaser when nothing listens.
func TestNobodyListens(t *testing.T) {
	if l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{"127.0.0.1:1"}}); err == nil || l != nil {
		t.Errorf("got %v, %v", l, err)
	}
}

// A Config with TLS never sends plain text.
func TestTLSIsSpoken(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan byte, 1)
	go func() {
		defer cancel()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			var b [1]byte
			_, err = io.ReadFull(conn, b[:])
			conn.Close()
			if err == nil { // and not the engine's look whether anything listens
				first <- b[0]
				return
			}
		}
	}()
	if l, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{listener.Addr().String()}, TLS: &tls.Config{ServerName: "a"}}); err == nil {
		l.Close()
		t.Error("Open succeeds at a listener that closes all connections")
	}
	const handshake = 0x16
	if b := <-first; b != handshake {
		t.Errorf("a client with TLS begins with byte %#x, want %#x", b, handshake)
	}
}

// All of a Config is passed on.
func TestAConfigIsPassedOn(t *testing.T) {
	addr := serve(t)
	l, err := etcd.Open(t.Context(), etcd.Config{Endpoints: []string{addr}, Username: "nobody", Password: "p"})
	if err != nil {
		t.Fatal(err) // the server has no users
	}
	l.Close()
	for _, half := range []etcd.Config{{Endpoints: []string{addr}, Username: "u"}, {Endpoints: []string{addr}, Password: "p"}} {
		if l, err := etcd.Open(t.Context(), half); err == nil {
			l.Close()
			t.Errorf("half of a user and its password is taken: %+v", half)
		}
	}
}
