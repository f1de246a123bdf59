package network

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// windowBytes is how much may be under way or unread in one direction, as the buffers of
// two kernels hold.
const windowBytes = 256 << 10

// pair is the two ends of a connection. All of it is guarded by the network's lock.
type pair struct {
	n    *Network
	ends [2]*conn
}

// conn is one end of a connection.
type conn struct {
	pair  *pair
	p     *world.Process
	local addr
	in    *stream // incoming data
	out   *stream

	err           error // the error of all operations
	gone          bool  // the host has forgotten it, and answers with a reset
	closed        bool
	read, written deadline
}

var _ net.Conn = (*conn)(nil)

// stream is one direction.
type stream struct {
	n        *Network
	from, to string
	moved    sync.Cond // something arrived, or there is room again, or all is over
	flying   []flight
	ready    []byte
	bytes    int // flying and ready
	arrives  time.Time
	ended    bool // the sender has closed it
	eof      bool // and that has arrived
	lost     bool // outgoing data goes nowhere
}

type flight struct {
	data []byte
	at   time.Time
	act  func() // instead of data
}

func newPair(n *Network, a *world.Process, atA addr, b *world.Process, atB addr) *pair {
	pr := &pair{n: n}
	ab := &stream{n: n, from: a.Name(), to: b.Name()}
	ba := &stream{n: n, from: b.Name(), to: a.Name()}
	ab.moved.L, ba.moved.L = &n.mu, &n.mu
	pr.ends = [2]*conn{
		{pair: pr, p: a, local: atA, in: ba, out: ab},
		{pair: pr, p: b, local: atB, in: ab, out: ba},
	}
	for _, c := range pr.ends {
		c.read.of, c.written.of = c.in, c.out
	}
	return pr
}

func (pr *pair) between(a, b string) bool {
	return (a == "" || pr.ends[0].p.Name() == a) && (b == "" || pr.ends[1].p.Name() == b)
}

// over reports whether neither end can be used any more.
func (pr *pair) over() bool {
	for _, c := range pr.ends {
		if c.err == nil && !c.closed {
			return false
		}
	}
	return true
}

// reset resets both ends at once.
func (pr *pair) reset() {
	for _, c := range pr.ends {
		c.fail(syscall.ECONNRESET)
	}
}

// fail ends an end.
func (c *conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.in.moved.Broadcast()
	c.out.moved.Broadcast()
}

// exit does the work of a kernel when the process of an end dies. The other end reads the data
// that was sent, and then the end, or a reset if it had sent data that was not read.
func (pr *pair) exit(end int) {
	c := pr.ends[end]
	unread := c.in.bytes > 0
	c.fail(net.ErrClosed)
	if unread {
		c.gone = true
		c.out.send(flight{act: func() { pr.ends[1-end].fail(syscall.ECONNRESET) }})
		return
	}
	c.gone = true
	c.out.finish()
}

// vanish ends an end without a word to the other.
func (pr *pair) vanish(end int) {
	c := pr.ends[end]
	c.gone = true
	c.fail(syscall.ECONNRESET)
	c.out.lost, c.out.flying = true, nil
	if c.in.bytes > 0 { // the other end sends it again, and then it hears of it
		c.in.flying, c.in.ready, c.in.bytes = nil, nil, 0
		pr.ends[1-end].put(nil)
	}
}

// send puts something on the way.
func (s *stream) send(f flight) {
	if s.lost {
		return
	}
	f.at = time.Now().Add(s.n.way(s.from, s.to))
	if f.at.Before(s.arrives) {
		f.at = s.arrives
	}
	s.arrives = f.at
	s.flying = append(s.flying, f)
	s.bytes += len(f.data)
	s.await(f.at)
}

func (s *stream) await(at time.Time) {
	time.AfterFunc(time.Until(at), func() {
		s.n.mu.Lock()
		defer s.n.mu.Unlock()
		s.arrive()
	})
}

// finish sends the end.
func (s *stream) finish() {
	if !s.ended {
		s.ended = true
		s.send(flight{act: func() { s.eof = true }})
	}
}

// arrive delivers data that is due. The network's lock is held.
func (s *stream) arrive() {
	now := time.Now()
	if len(s.flying) == 0 || s.flying[0].at.After(now) || s.n.blocked(s.from, s.to) {
		return
	}
	for len(s.flying) > 0 && !s.flying[0].at.After(now) {
		f := s.flying[0]
		s.flying = s.flying[1:]
		if f.act != nil {
			f.act()
		} else {
			s.ready = append(s.ready, f.data...)
		}
	}
	s.moved.Broadcast()
}

// other is the far end.
func (c *conn) other() *conn {
	if c.pair.ends[0] == c {
		return c.pair.ends[1]
	}
	return c.pair.ends[0]
}

// Read reads data that has arrived.
func (c *conn) Read(b []byte) (int, error) {
	for {
		c.wait()
		// A process that stands still leaves arrived data in the kernel.
		if err := c.p.Do(world.Network, "read", ""); err != nil {
			return 0, c.error("read", err)
		}
		if count, done, err := c.take(b); done {
			return count, err
		}
	}
}

// wait returns when a read need not wait.
func (c *conn) wait() {
	n := c.pair.n
	n.mu.Lock()
	defer n.mu.Unlock()
	for c.err == nil && !c.closed && len(c.in.ready) == 0 && !c.in.eof && !c.read.passed() {
		c.in.moved.Wait()
	}
}

// take is a read that does not wait. It is not done if there was nothing, as when another
// goroutine has moved the deadline.
func (c *conn) take(b []byte) (count int, done bool, err error) {
	c.pair.n.mu.Lock()
	defer c.pair.n.mu.Unlock()
	switch {
	case c.closed:
		return 0, true, c.error("read", net.ErrClosed)
	case c.read.passed():
		return 0, true, c.error("read", os.ErrDeadlineExceeded)
	case len(c.in.ready) > 0:
		count = copy(b, c.in.ready)
		c.in.ready = c.in.ready[count:]
		if c.in.bytes -= count; len(c.in.ready) == 0 {
			c.in.ready = nil
		}
		c.in.moved.Broadcast()
		return count, true, nil
	case c.err != nil:
		return 0, true, c.error("read", c.err)
	case c.in.eof:
		return 0, true, io.EOF
	}
	return 0, false, nil
}

// Write puts bytes on the way, and waits while too many are.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.p.Do(world.Network, "write", ""); err != nil {
		return 0, c.error("write", err)
	}
	n := c.pair.n
	n.mu.Lock()
	defer n.mu.Unlock()
	wrote := 0
	for {
		switch {
		case c.closed:
			return wrote, c.error("write", net.ErrClosed)
		case c.err != nil:
			return wrote, c.error("write", c.err)
		case c.written.passed():
			return wrote, c.error("write", os.ErrDeadlineExceeded)
		case c.out.ended:
			return wrote, c.error("write", syscall.EPIPE)
		}
		if room := windowBytes - c.out.bytes; room > 0 && len(b) > 0 {
			piece := b[:min(room, len(b))]
			b = b[len(piece):]
			wrote += len(piece)
			c.put(piece)
		}
		if len(b) == 0 {
			return wrote, nil
		}
		c.out.moved.Wait()
	}
}

// put sends a piece. A host that has forgotten the connection answers with a reset, when
// it hears of it and can be heard.
func (c *conn) put(piece []byte) {
	far := c.other()
	if !far.gone && !far.closed {
		c.out.send(flight{data: append([]byte(nil), piece...)})
		return
	}
	back := c.in
	c.out.send(flight{act: func() {
		back.lost = false
		back.send(flight{act: func() { c.fail(syscall.ECONNRESET) }})
	}})
}

// Close ends this end; the other one reads the data that was sent, and then the end.
func (c *conn) Close() error {
	n := c.pair.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.err == nil {
		if c.in.bytes > 0 {
			far := c.other()
			c.out.ended = true
			c.out.send(flight{act: func() { far.fail(syscall.ECONNRESET) }})
		} else {
			c.out.finish()
		}
	}
	c.in.moved.Broadcast()
	c.out.moved.Broadcast()
	return nil
}

// LocalAddr is this end's address.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end's.
func (c *conn) RemoteAddr() net.Addr { return c.other().local }

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of Read.
func (c *conn) SetReadDeadline(t time.Time) error { return c.set(&c.read, t) }

// SetWriteDeadline sets the deadline of Write.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.set(&c.written, t) }

func (c *conn) set(d *deadline, t time.Time) error {
	n := c.pair.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return c.error("set", net.ErrClosed)
	}
	d.set(t)
	return nil
}

func (c *conn) error(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.other().local, Err: err}
}

// deadline wakes the goroutine that waits for a stream when the deadline has passed.
type deadline struct {
	of    *stream
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(at time.Time) {
	d.at = at
	if d.timer != nil {
		d.timer.Stop()
	}
	switch {
	case at.IsZero():
	case d.passed():
		d.of.moved.Broadcast()
	default:
		d.timer = time.AfterFunc(time.Until(at), func() {
			d.of.n.mu.Lock()
			defer d.of.n.mu.Unlock()
			d.of.moved.Broadcast()
		})
	}
}
