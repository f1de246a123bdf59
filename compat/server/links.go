package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Links are the ways between members, in the hands of a test: each may be held, in
// one direction or both, or be slow. What is held arrives when it is let go, however
// late; nothing is lost, for these are TCP connections.
//
// Who dials is read from the greeting of Tenure's peers (package peer), so links are
// for Tenure only.
type Links struct {
	mu      sync.Mutex
	changed sync.Cond
	ids     []uint64 // by member; known once they have started
	ways    map[[2]int]way
	ended   bool
	proxies []net.Listener
}

// way is the state of one direction.
type way struct {
	held  bool
	delay time.Duration // of each piece that arrives
}

func newLinks() *Links {
	l := &Links{ways: map[[2]int]way{}}
	l.changed.L = &l.mu
	return l
}

// Hold lets nothing pass from one member, by index, to another until Release.
func (l *Links) Hold(from, to int) {
	l.set(from, to, func(w *way) { w.held = true })
}

// Release lets pass what was held, and all that follows.
func (l *Links) Release(from, to int) {
	l.set(from, to, func(w *way) { w.held = false })
}

// Delay has what goes from one member to another take so much longer.
func (l *Links) Delay(from, to int, by time.Duration) {
	l.set(from, to, func(w *way) { w.delay = by })
}

func (l *Links) set(from, to int, f func(*way)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.ways[[2]int{from, to}]
	f(&w)
	l.ways[[2]int{from, to}] = w
	l.changed.Broadcast()
}

// know learns the members' ids, in their order. Until then nothing is held.
func (l *Links) know(ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = ids
}

// stop ends all links.
func (l *Links) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, p := range l.proxies {
		p.Close()
	}
	l.changed.Broadcast()
}

// proxy listens at an address in place of a member, by index, that listens at another.
func (l *Links) proxy(to int, at, real string) error {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.proxies = append(l.proxies, listener)
	l.mu.Unlock()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			go l.connect(conn, to, real)
		}
	}()
	return nil
}

// greeted is how much of a greeting tells who dials: the id is its last eight bytes.
const greeted = 28

func (l *Links) connect(dialer net.Conn, to int, real string) {
	defer dialer.Close()
	hello := make([]byte, greeted)
	dialer.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadFull(dialer, hello); err != nil {
		return
	}
	dialer.SetReadDeadline(time.Time{})
	id := binary.LittleEndian.Uint64(hello[greeted-8:])
	if l.pass(id, to, false) != nil {
		return
	}
	listener, err := net.Dial("tcp", real)
	if err != nil {
		return // the member is down, as the dialer will see
	}
	defer listener.Close()
	if _, err := listener.Write(hello); err != nil {
		return
	}
	// When one side ends the connection, so does the other learn of it, in the
	// same way as of anything else.
	var both sync.WaitGroup
	both.Go(func() { l.carry(listener, dialer, id, to, false) })
	both.Go(func() { l.carry(dialer, listener, id, to, true) })
	both.Wait()
}

// carry copies what one side of a connection sends; back says that it is the side that
// was dialed.
func (l *Links) carry(dst, src net.Conn, id uint64, to int, back bool) {
	defer dst.Close()
	piece := make([]byte, 64<<10)
	for {
		n, err := src.Read(piece)
		if l.pass(id, to, back) != nil {
			return
		}
		if _, failed := dst.Write(piece[:n]); failed != nil || err != nil {
			return
		}
	}
}

var errEnded = errors.New("the links have ended")

// pass returns when something may pass between the member that dialed and the one that
// was dialed.
func (l *Links) pass(id uint64, to int, back bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slept := false; ; {
		from := slices.Index(l.ids, id)
		w := l.ways[[2]int{from, to}]
		if back {
			w = l.ways[[2]int{to, from}]
		}
		switch {
		case l.ended:
			return errEnded
		case w.held:
			l.changed.Wait()
		case w.delay > 0 && !slept:
			slept = true
			l.mu.Unlock()
			time.Sleep(w.delay)
			l.mu.Lock()
		default:
			return nil
		}
	}
}
