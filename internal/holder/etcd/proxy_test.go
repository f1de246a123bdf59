package etcd_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy is a TCP proxy that can stop, or delay the server's answers.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	open  sync.Cond
	cut   bool
	lag   time.Duration
	ended bool
	conns []net.Conn
}

func newProxy(t testing.TB, target string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target}
	p.open.L = &p.mu
	go p.serve()
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		go p.forward(server, client, false)
		go p.forward(client, server, true)
	}
}

// forward copies chunks, each with the time when it may leave.
func (p *proxy) forward(to, from net.Conn, answers bool) {
	type chunk struct {
		bytes []byte
		at    time.Time
	}
	chunks := make(chan chunk, 4096)
	go func() {
		defer to.Close()
		for c := range chunks {
			<-time.After(time.Until(c.at))
			p.wait()
			if _, err := to.Write(c.bytes); err != nil {
				break
			}
		}
		for range chunks {
		}
	}()
	defer close(chunks)
	for {
		buf := make([]byte, 64<<10)
		n, err := from.Read(buf)
		if n > 0 {
			at := time.Now()
			if answers {
				p.mu.Lock()
				at = at.Add(p.lag)
				p.mu.Unlock()
			}
			chunks <- chunk{buf[:n], at}
		}
		if err != nil {
			if err != io.EOF {
				to.Close()
			}
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

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.open.Broadcast()
	for _, c := range p.conns {
		c.Close()
	}
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
