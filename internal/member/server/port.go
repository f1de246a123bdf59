package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// A port takes the connections of clients in, makes their TLS handshake, and passes each on to the
// server that speaks its protocol: gRPC and HTTP share one address, as with etcd.
type port struct {
	tls       *tls.Config // nil: none
	strangers *strangers
	refused   *refusals
	patience  time.Duration // for a handshake and the bytes that show the protocol
	firstCall time.Duration // for the first call of HTTP/2
	streams   uint32        // calls in flight on a connection; 0 is no bound
	grpc      *lane         // nil: all of it is HTTP
	http      *lane         // nil: all of it is gRPC

	mu      sync.Mutex
	ended   bool
	open    []net.Listener
	greeted map[net.Conn]struct{} // connections that no server has yet
	work    sync.WaitGroup
}

// The names of protocols in the TLS handshake. gRPC's clients offer the first of them alone.
const (
	protocolHTTP2 = "h2"
	protocolHTTP1 = "http/1.1"
)

// negotiating returns a configuration that negotiates both protocols.
func negotiating(c *tls.Config) *tls.Config {
	if c == nil {
		return nil
	}
	c = c.Clone()
	for _, name := range []string{protocolHTTP2, protocolHTTP1} {
		if !slices.Contains(c.NextProtos, name) {
			c.NextProtos = append(slices.Clip(c.NextProtos), name)
		}
	}
	if of := c.GetConfigForClient; of != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := of(hello)
			return negotiating(c), err
		}
	}
	return c
}

// The pauses after an Accept that failed for lack of something, such as file descriptors.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// serve takes connections in until the port ends, which is no error.
func (p *port) serve(l net.Listener) error {
	if !p.begin(l) {
		return l.Close()
	}
	for pause := leastPause; ; {
		c, err := l.Accept()
		if err == nil {
			pause = leastPause
			p.take(c)
			continue
		}
		if p.isEnded() {
			return nil
		}
		var passing interface{ Temporary() bool }
		if !errors.As(err, &passing) || !passing.Temporary() {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, mostPause)
	}
}

func (p *port) begin(l net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.open = append(p.open, l)
	}
	return !p.ended
}

func (p *port) isEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// take greets a connection on a goroutine of its own.
func (p *port) take(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		c.Close()
		return
	}
	if p.greeted == nil {
		p.greeted = map[net.Conn]struct{}{}
	}
	p.greeted[c] = struct{}{}
	p.strangers.enter(c)
	p.work.Go(func() {
		p.greet(c)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.greeted, c)
	})
}

// greet passes a connection on, or closes it.
func (p *port) greet(c net.Conn) {
	defer p.strangers.leave(c)
	c.SetDeadline(time.Now().Add(p.patience))
	known := &guest{Conn: c}
	t, secure := c.(*tls.Conn) // of a listener that brings its own TLS
	if !secure && p.tls != nil {
		t, secure = tls.Server(c, p.tls), true
	}
	if secure {
		if err := t.HandshakeContext(context.Background()); err != nil {
			p.refused.tell(c, err)
			c.Close()
			return
		}
		state := t.ConnectionState()
		known.Conn, known.tls = t, &state
		p.strangers.leave(c)
	}
	to, err := p.lane(known, func() { p.strangers.leave(c) })
	if err != nil {
		known.Close()
		return
	}
	c.SetDeadline(time.Time{})
	p.strangers.leave(c)
	to.pass(known)
}

// end closes the listeners, and the connections that no server has yet.
func (p *port) end() {
	p.mu.Lock()
	p.ended = true
	for _, l := range p.open {
		l.Close()
	}
	for c := range p.greeted {
		c.Close()
	}
	p.mu.Unlock()
	for _, l := range []*lane{p.grpc, p.http} {
		if l != nil {
			l.Close()
		}
	}
	p.work.Wait()
}

// A guest is a connection that was greeted. The bytes that were read for that come first.
type guest struct {
	net.Conn
	head []byte
	tls  *tls.ConnectionState // nil without TLS
}

func (c *guest) Read(b []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(b, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
