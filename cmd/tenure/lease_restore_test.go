package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
)

// A server that came back empty is left out until it is restored, and counts from then on.
func TestRestoreCommand(t *testing.T) {
	var servers []*miniredis.Miniredis
	var addrs []string
	for range 3 {
		h := redisServer(t)
		servers, addrs = append(servers, h), append(addrs, h.Addr())
	}
	at := "redis://" + strings.Join(addrs, ",")
	if out, err := command(t, "lease", "init", "--at", at, "--ttl", "1s", "--delay", "40ms"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	counts := func() (n int) {
		out, err := command(t, "lease", "show", "held", "--at", at, "-o", "json")
		var shown shownLease
		if err != nil || json.Unmarshal([]byte(out), &shown) != nil || len(shown.Stores) != 3 {
			t.Fatalf("%s, %v", out, err)
		}
		for _, s := range shown.Stores {
			if s.Error == "" {
				n++
			}
		}
		return n
	}
	servers[1].FlushAll()
	if n := counts(); n != 2 {
		t.Fatalf("%d stores count, of which one is empty", n)
	}
	_, port, _ := net.SplitHostPort(addrs[1])
	code, out, errs := ran(t, "lease", "restore", "--at", at, "--server", "127.0.0.1:"+port, "-o", "json")
	var done restoredStore
	if err := json.Unmarshal([]byte(out), &done); err != nil || code != 0 || done.At != at || done.Server != addrs[1] || done.TookMS < 3000 || done.TookMS > 300_000 {
		t.Fatalf("it ends with %d, %v, and says %s; want that %s was restored, in three seconds or more", code, err, out, addrs[1])
	}
	if want := "restoring " + addrs[1] + ", which takes 3s\n"; errs != want {
		t.Errorf("while it waits it says %q, want %q", errs, want)
	}
	if n := counts(); n != 3 {
		t.Errorf("%d stores count, and one was restored", n)
	}
	l, err := engine.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "held", TTL: time.Second}); err != nil {
		t.Errorf("no lease is to be had after that: %v", err)
	}
}

// Each mistake is answered with what to write.
func TestWhatIsNoServerToRestore(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "tenure lease restore --at redis://a,b,c --server b"},
		{[]string{"--at", "redis://a,b,c"}, "which server"},
		{[]string{"--server", "b"}, "of which set"},
		{[]string{"--at", "file:///a", "--server", "b"}, "by tenure lease init"},
		{[]string{"--at", "redis://a,b,c", "--server", "d"}, "none of the servers in --at: a:6379, b:6379, c:6379"},
		{[]string{"--at", "redis://a,b,c", "--server", "a,b"}, "none of the servers in --at"},
		{[]string{"--at", "redis://a,b,c", "--server", ""}, "which server"},
		{[]string{"--at", "redis://a/x", "--server", "a"}, "redis://a/x"},
	} {
		if out, err := command(t, append([]string{"lease", "restore"}, tt.args...)...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %s, %v; want an error that has %q", tt.args, out, err, tt.want)
		}
	}
}

// A server may be named without its port.
func TestAServerIsNamedAsInTheURL(t *testing.T) {
	for server, want := range map[string]string{"127.0.0.1:1": "127.0.0.1:1", "127.0.0.1:6379": "127.0.0.1:6379", "127.0.0.1": "127.0.0.1:6379"} {
		got, err := restore(t.Context(), "redis://127.0.0.1:1,127.0.0.1", server, nil)
		if err == nil || strings.Contains(err.Error(), "is none of the ") || got != want {
			t.Errorf("server %s is %s: %v, want that %s does not answer", server, got, err, want)
		}
	}
}
