package peertest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Links are the ways between members, which are counted from 0. Held bytes arrive when they
// are let go, however late. Nothing is lost, for these are TCP connections.
type Links struct {
	running sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed, and another in its place, when a way has changed
	ids     []uint64      // by member
	ways    map[[2]int]way
	open    map[io.Closer]bool // nil once the links have ended
}

// way is the state of one direction.
type way struct {
	held  bool
	delay time.Duration
}

// New returns links between nobody yet.
func New() *Links {
	return &Links{changed: make(chan struct{}), ways: map[[2]int]way{}, open: map[io.Closer]bool{}}
}

// Hold lets nothing pass from one member to another until Release.
func (l *Links) Hold(from, to int) {
	l.set(from, to, func(w *way) { w.held = true })
}

// Release lets pass what was held, and all that follows.
func (l *Links) Release(from, to int) {
	l.set(from, to, func(w *way) { w.held = false })
}

// Delay has what goes from one member to another take so much longer; also what is under
// way.
func (l *Links) Delay(from, to int, by time.Duration) {
	l.set(from, to, func(w *way) { w.delay = by })
}

func (l *Links) set(from, to int, f func(*way)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.ways[[2]int{from, to}]
	f(&w)
	l.ways[[2]int{from, to}] = w
	l.change()
}

func (l *Links) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Know learns the members' numbers, in their order; they matter to Proxy. Bytes of a member
// that is not known yet pass.
func (l *Links) Know(ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = slices.Clone(ids)
	l.change()
}

// Stop ends all links, and waits until they have.
func (l *Links) Stop() {
	l.mu.Lock()
	for c := range l.open {
		c.Close()
	}
	l.open = nil
	l.change()
	l.mu.Unlock()
	l.running.Wait()
}

// keep has Stop close something, unless it has been and gone.
func (l *Links) keep(c io.Closer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		c.Close()
		return errEnded
	}
	l.open[c] = true
	return nil
}

// close closes what was kept.
func (l *Links) close(c io.Closer) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// Proxy listens at an address in place of a member that listens at another, and returns
// where.
func (l *Links) Proxy(to int, at, real string) (string, error) {
	return l.listen(at, func(conn net.Conn) { l.greeted(conn, to, real) })
}

// listen has serve serve each connection that is made to an address.
func (l *Links) listen(at string, serve func(net.Conn)) (string, error) {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return "", err
	}
	if err := l.keep(listener); err != nil {
		return "", err
	}
	l.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			if l.keep(conn) != nil {
				return
			}
			l.running.Go(func() {
				defer l.close(conn)
				serve(conn)
			})
		}
	})
	return listener.Addr().String(), nil
}

// patience is how long a dialer may take to name the member that it wants, or itself.
const patience = 5 * time.Second

// A greeting names the dialer within its first greeted bytes: the last eight are its number.
const greeted = 28

// greeted serves a connection to a member from a dialer that names itself.
func (l *Links) greeted(dialer net.Conn, to int, real string) {
	hello := make([]byte, greeted)
	dialer.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(dialer, hello); err != nil {
		return
	}
	dialer.SetReadDeadline(time.Time{})
	id := binary.LittleEndian.Uint64(hello[greeted-8:])
	from := func() int { return slices.Index(l.ids, id) }
	if l.pass(from, to, false, time.Now()) != nil {
		return
	}
	listener, err := net.Dial("tcp", real)
	if err != nil {
		return // the member is down, as the dialer will see
	}
	if _, err := listener.Write(hello); err != nil {
		listener.Close()
		return
	}
	l.join(dialer, listener, from, to)
}

// dialer is the member that dials, -1 if it is unknown. It is called while
// the links are locked.
type dialer func() int

// join carries what both sides of a connection send, until it has ended. When one side
// ends it, so does the other learn of it, in the same way as of anything else.
func (l *Links) join(dialer, listener net.Conn, from dialer, to int) {
	if l.keep(listener) != nil {
		return
	}
	defer l.close(listener)
	var both sync.WaitGroup
	both.Go(func() {
		carry(listener, dialer, func(arrived time.Time) error { return l.pass(from, to, false, arrived) })
	})
	both.Go(func() {
		carry(dialer, listener, func(arrived time.Time) error { return l.pass(from, to, true, arrived) })
	})
	both.Wait()
}

var errEnded = errors.New("the links have ended")

// pass returns when something may go on that arrived at some time on its way between the
// member that dialed and the one that was dialed; back says that the latter sent it.
func (l *Links) pass(from dialer, to int, back bool, arrived time.Time) error {
	for {
		l.mu.Lock()
		ends := [2]int{from(), to}
		if back {
			slices.Reverse(ends[:])
		}
		w, changed, ended := l.ways[ends], l.changed, l.open == nil
		l.mu.Unlock()
		rest := time.Until(arrived.Add(w.delay))
		switch {
		case ended:
			return errEnded
		case w.held:
			<-changed
		case rest > 0:
			select {
			case <-time.After(rest):
			case <-changed:
			}
		default:
			return nil
		}
	}
}
