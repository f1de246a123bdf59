package server

import (
	"net"
	"sync"
)

// A lane is a listener for one of the servers behind a port. Its connections are those that the
// port found to be that server's.
type lane struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func newLane() *lane { return &lane{conns: make(chan net.Conn), ended: make(chan struct{})} }

// pass hands a connection to the server. One that comes after the end is closed.
func (l *lane) pass(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.ended:
		c.Close()
	}
}

// Accept returns the next connection.
func (l *lane) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close ends Accept, now and later.
func (l *lane) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr is a part of the interface: a lane has many addresses, those of the port's listeners.
func (l *lane) Addr() net.Addr { return &net.TCPAddr{} }
