package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// silent connects and says nothing.
func silent(t *testing.T, endpoint string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// wantPutOut waits until the other side closes a connection.
func wantPutOut(t *testing.T, c net.Conn, who string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(8 * time.Second))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s is not put out", who)
	}
}

// Who shows no certificate takes no more connections of a member than there are for handshakes,
// and keeps nobody out. A client is not put out for it.
func TestStrangersAreBounded(t *testing.T) {
	servers, endpoints := startWith(t, 1, func(c *Config) { c.ClientTLS, c.strangers = certified(t), 8 })
	var dials atomic.Int32
	known, err := grpc.NewClient(endpoints[0],
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			dials.Add(1)
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	call := func() {
		t.Helper()
		if _, err := grpc_health_v1.NewHealthClient(known).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatalf("a client beside strangers: %v", err)
		}
	}
	call()
	var conns []net.Conn
	for range 12 {
		conns = append(conns, silent(t, endpoints[0]))
	}
	for _, c := range conns[:4] {
		wantPutOut(t, c, "the oldest of 12 strangers, 8 are the limit,")
	}
	call()
	if n := dials.Load(); n != 1 {
		t.Fatalf("a client was put out for strangers, and has connected %d times", n)
	}
	for _, c := range conns[4:] {
		c.Write([]byte("no TLS at all\r\n\r\n"))
		wantPutOut(t, c, "a client that does not speak TLS")
	}
	s := &servers[0].strangers
	until(t, "the strangers that have gone to be forgotten", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.inside) == 0
	})
	for range 8 { // all of the room is there again
		conns = append(conns, silent(t, endpoints[0]))
	}
	call()
	for _, c := range conns[12:] {
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("one of 8 strangers is put out, though there is room for them: %v", err)
		}
	}
}

// shut is a connection that knows whether it was closed.
type shut struct {
	net.Conn
	closed bool
}

func (s *shut) Close() error {
	s.closed = true
	return nil
}

func (*shut) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// A stranger that has gone leaves room for another, in whatever order they go, and one that is a
// stranger no more is not put out.
func TestStrangersLeaveTheirRoom(t *testing.T) {
	s := strangers{most: 3}
	var conns []*shut
	enter := func(n int) {
		for range n {
			conns = append(conns, &shut{})
			s.enter(conns[len(conns)-1])
		}
	}
	enter(3)
	s.leave(conns[1])
	s.leave(conns[0])
	s.leave(conns[0]) // it is none any more
	enter(2)
	for i, c := range conns {
		if c.closed {
			t.Errorf("connection %d was put out, and there was room", i)
		}
	}
	enter(1)
	for i, c := range conns {
		if c.closed != (i == 2) {
			t.Errorf("there is no room for another: connection %d is closed: %v, want the oldest stranger put out, 2, and nobody else", i, c.closed)
		}
	}
}

// Who says nothing is put out after a time, with TLS and without.
func TestSilentClientsArePutOut(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"by TLS":      func(c *Config) { c.ClientTLS = certified(t) },
		"without TLS": func(*Config) {},
	} {
		_, endpoints := startWith(t, 1, func(c *Config) { edit(c); c.handshake = 50 * time.Millisecond })
		wantPutOut(t, silent(t, endpoints[0]), "who says nothing "+name)
	}
	if handshakePatience != 10*time.Second || strangersMax != 1024 {
		t.Errorf("strangers have %v and %d connections, and docs/security.md says 10 s and 1,024", handshakePatience, strangersMax)
	}
}

// A stranger that leaves is forgotten, and so is one that was put out.
func TestStrangersAreForgotten(t *testing.T) {
	s := strangers{most: 1}
	var all []net.Conn
	for range 3 {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		s.enter(here)
		all = append(all, here)
	}
	for i, c := range all {
		s.leave(c)
		s.leave(c)
		if left := len(all) - i - 1; len(s.inside) != left {
			t.Errorf("%d of %d strangers have left, and %d are remembered, want %d", i+1, len(all), len(s.inside), left)
		}
	}
}
