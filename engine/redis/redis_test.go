package redis

import (
	"context"
	"crypto/tls"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// Each field of a Config and of a Spec is passed on, and to the right place.
func TestOptionsReachTheEngine(t *testing.T) {
	secure := &tls.Config{ServerName: "a"}
	got := Config{Addrs: []string{"a:1"}, Username: "user", Password: "password", DB: 2, TLS: secure, Prefix: "prefix", State: "/state"}.internal()
	want := redis.Config{Addrs: []string{"a:1"}, Username: "user", Password: "password", DB: 2, TLS: secure, Prefix: "prefix", State: "/state"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the engine is configured as %+v, want %+v", got, want)
	}
	if got, want := (Spec{TTL: 1, Delay: 2, Drift: 3}).internal(), (storage.Spec{Term: 1, Delay: 2, Drift: 3}); got != want {
		t.Errorf("stores are made by %+v, want %+v", got, want)
	}
}

// Init makes a store once, and Open takes leases in it.
func TestLeases(t *testing.T) {
	server := miniredis.RunT(t)
	server.Server().SetPreHook(func(c *miniserver.Peer, cmd string, _ ...string) bool {
		if !strings.EqualFold(cmd, "INFO") {
			return false
		}
		c.WriteBulk("# Clients\r\nconnected_clients:1\r\n")
		return true
	})
	cfg := Config{Addrs: []string{server.Addr()}, State: t.TempDir()}
	if l, err := Open(t.Context(), cfg); err == nil || l != nil {
		t.Errorf("Open of a server without a store returns %v, %v", l, err)
	}
	spec := Spec{TTL: 20 * time.Second, Delay: 150 * time.Millisecond}
	if err := Init(t.Context(), cfg, spec); err != nil {
		t.Fatal(err)
	}
	if err := Init(t.Context(), cfg, spec); err == nil {
		t.Error("Init makes a store where there is one")
	}
	l, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "job", TTL: 20 * time.Second}); err != nil {
		t.Error(err)
	}
	if names, err := l.(tenure.Lister).List(t.Context(), "j"); err != nil || len(names) != 1 || names[0] != "job" {
		t.Errorf("it lists %q, %v; want the name that it holds", names, err)
	}
}

// Restore restores the server that it is given, of the set that it is given.
func TestRestore(t *testing.T) {
	if err := Restore(t.Context(), Config{Addrs: []string{"a:1", "b:1"}}, "c:1"); err == nil || !strings.Contains(err.Error(), "redis c:1: the server is none of the set [a:1 b:1]") {
		t.Errorf("a server of another set: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Restore(ctx, Config{Addrs: []string{"127.0.0.1:1"}}, "127.0.0.1:1"); err == nil || strings.Contains(err.Error(), "none of the set") {
		t.Errorf("a server that does not answer: %v", err)
	}
}
