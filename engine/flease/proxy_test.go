package flease_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// proxy stands between clients and a peer's socket. It can stop, or delay what the peer
// says.
type proxy struct {
	path, target string

	mu    sync.Mutex
	open  sync.Cond
	cut   bool
	lag   time.Duration
	ended bool
	conns []net.Conn
	all   sync.WaitGroup
}

func newProxy(t testing.TB, target string) *proxy {
	dir, err := os.MkdirTemp("", "flease")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{path: filepath.Join(dir, "proxy.sock"), target: target}
	p.open.L = &p.mu
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
		p.ended = true
		p.open.Broadcast()
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
	p.all.Go(func() { p.forward(peer, client, false) })
	p.all.Go(func() { p.forward(client, peer, true) })
}

// forward copies chunks, each with the time when it may leave.
func (p *proxy) forward(to, from net.Conn, answers bool) {
	type chunk struct {
		bytes []byte
		at    time.Time
	}
	chunks := make(chan chunk, 4096)
	p.all.Go(func() {
		defer to.Close()
		for c := range chunks {
			time.Sleep(time.Until(c.at))
			p.wait()
			_, _ = to.Write(c.bytes) // of a closed connection nothing comes, either
		}
	})
	defer close(chunks)
	for {
		buf := make([]byte, 64<<10)
		n, err := from.Read(buf)
		at := time.Now()
		if answers {
			p.mu.Lock()
			at = at.Add(p.lag)
			p.mu.Unlock()
		}
		if n > 0 {
			chunks <- chunk{buf[:n], at}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when traffic may pass.
func (p *proxy) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut && !p.ended {
		p.open.Wait()
	}
}

func (p *proxy) set(cut bool, lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.lag = cut, lag
	p.open.Broadcast()
}

// sever ends all connections; new ones are taken.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}
