package flease_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// proxy stands between clients and a peer's socket, and can end their connections.
type proxy struct {
	path, target string

	mu    sync.Mutex
	conns []net.Conn
	all   sync.WaitGroup
}

func newProxy(t testing.TB, target string) *proxy {
	dir, err := os.MkdirTemp("", "flease")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{path: filepath.Join(dir, "proxy.sock"), target: target}
	l, err := net.Listen("unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	p.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.connect(c)
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
		os.RemoveAll(dir)
	})
	return p
}

func (p *proxy) connect(client net.Conn) {
	peer, err := net.Dial("unix", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, client, peer)
	p.all.Go(func() { p.forward(peer, client) })
	p.all.Go(func() { p.forward(client, peer) })
}

// forward copies until either end closes.
func (p *proxy) forward(to, from net.Conn) {
	defer to.Close()
	_, _ = io.Copy(to, from) // a closed connection gives nothing, either
}

// sever ends all connections. New ones are accepted.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
