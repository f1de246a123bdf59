package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-lease/tenure/server"
)

// startServer starts a server in this process and returns a maker of clients.
func startServer(t *testing.T) func() *clientv3.Client {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(server.Config{
		Name: "a", DataDir: t.TempDir(), InitialCluster: map[string]string{"a": "http://127.0.0.1:1"}, ClientListeners: []net.Listener{listener},
		HeartbeatInterval: 20 * time.Millisecond, ElectionTimeout: 200 * time.Millisecond, // so that a second is long
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return func() *clientv3.Client {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{listener.Addr().String()}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func TestMembers(t *testing.T) {
	client := startServer(t)
	group := func() Group { return Group{Client: client(), Prefix: "members/", TTL: time.Second} }
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	a, b := group(), group()
	if _, err := a.Join(ctx, "a", "10.0.0.1"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Join(ctx, "a", "10.0.0.2"); err == nil || !strings.Contains(err.Error(), `another process is member "a"`) {
		t.Errorf("a second member a: got %v, want it refused", err)
	}
	leaveB, err := b.Join(ctx, "b", "10.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for change, err := range group().Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		switch got = append(got, fmt.Sprint(change)); len(got) {
		case 2:
			leaveB()
		case 3:
			a.Client.Close() // as good as a crash: nothing keeps the lease alive
		}
		if len(got) == 4 {
			break
		}
	}
	want := "up   a 10.0.0.1, up   b 10.0.0.2, down b, down a"
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("saw %q, want %q", got, want)
	}
}

// TestBack: a member whose lease was revoked, as after a long partition, comes back.
func TestBack(t *testing.T) {
	client := startServer(t)
	g := Group{Client: client(), Prefix: "members/", TTL: time.Second}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	leave, err := g.Join(ctx, "a", "1")
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	var got []string
	for change, err := range g.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, fmt.Sprint(change)); len(got) == 3 {
			break
		}
		if len(got) == 1 {
			leases, err := g.Client.Leases(ctx)
			if err != nil || len(leases.Leases) != 1 {
				t.Fatal(leases, err)
			}
			if _, err := g.Client.Revoke(ctx, leases.Leases[0].ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := strings.Join(got, ", "), "up   a 1, down a, up   a 1"; got != want {
		t.Errorf("saw %q, want %q", got, want)
	}
}
