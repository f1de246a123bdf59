package integration

import (
	"io"
	"net"
	"sync"
)

// Bridge is a TCP relay that misbehaves on demand.
type Bridge struct {
	listener net.Listener
	target   string

	mu        sync.Mutex
	changed   *sync.Cond // of paused and closed
	paused    bool       // new connections wait
	blackhole bool       // bytes are read and thrown away
	closed    bool
	conns     map[net.Conn]bool
}

func newBridge(target string) (*Bridge, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Bridge{listener: l, target: target, conns: map[net.Conn]bool{}}
	b.changed = sync.NewCond(&b.mu)
	go b.serve()
	return b, nil
}

// Addr is where the bridge listens.
func (b *Bridge) Addr() string { return b.listener.Addr().String() }

func (b *Bridge) serve() {
	for {
		in, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		for b.paused && !b.closed {
			b.changed.Wait()
		}
		b.mu.Unlock()
		out, err := net.Dial("tcp", b.target)
		if err != nil {
			in.Close()
			continue
		}
		b.mu.Lock()
		b.conns[in], b.conns[out] = true, true
		if b.closed {
			in.Close()
			out.Close()
		}
		b.mu.Unlock()
		go b.relay(in, out)
		go b.relay(out, in)
	}
}

// relay copies one direction until either end closes, then closes both.
func (b *Bridge) relay(to, from net.Conn) {
	io.Copy(hole{b, to}, from)
	to.Close()
	from.Close()
	b.mu.Lock()
	delete(b.conns, to)
	delete(b.conns, from)
	b.mu.Unlock()
}

// hole swallows what is written while the bridge is a black hole.
type hole struct {
	bridge *Bridge
	net.Conn
}

func (h hole) Write(p []byte) (int, error) {
	h.bridge.mu.Lock()
	swallow := h.bridge.blackhole
	h.bridge.mu.Unlock()
	if swallow {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// DropConnections closes every connection; new ones are taken.
func (b *Bridge) DropConnections() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		c.Close()
	}
}

// PauseConnections lets new connections wait.
func (b *Bridge) PauseConnections() { b.set(func() { b.paused = true }) }

// UnpauseConnections lets them through.
func (b *Bridge) UnpauseConnections() { b.set(func() { b.paused = false }) }

// Blackhole throws away everything that arrives.
func (b *Bridge) Blackhole() { b.set(func() { b.blackhole = true }) }

// Unblackhole relays again.
func (b *Bridge) Unblackhole() { b.set(func() { b.blackhole = false }) }

func (b *Bridge) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.changed.Broadcast()
}

func (b *Bridge) close() {
	b.set(func() { b.closed = true })
	b.listener.Close()
	b.DropConnections()
}
