package live

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/sim/widearea"
)

// links are proxies between members that keep what passes for as long as the way takes.
// Who dials they read from the greeting of package peer.
type links struct {
	mu      sync.Mutex
	sites   map[uint64]int // by member
	proxies []net.Listener
	conns   []net.Conn
	ended   bool
	running sync.WaitGroup
}

// proxy listens in place of a member of a site, that listens at another address, and
// returns where.
func (l *links) proxy(site int, real string) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	l.proxies = append(l.proxies, listener)
	l.mu.Unlock()
	l.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			l.running.Go(func() { l.connect(conn, site, real) })
		}
	})
	return listener.Addr().String(), nil
}

// know tells at which site a member is.
func (l *links) know(member uint64, site int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sites == nil {
		l.sites = map[uint64]int{}
	}
	l.sites[member] = site
}

// stop ends all connections and waits for that.
func (l *links) stop() {
	l.mu.Lock()
	l.ended = true
	for _, p := range l.proxies {
		p.Close()
	}
	for _, c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// keep notes a connection that stop is to close.
func (l *links) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return !l.ended
}

// Of a greeting the dialer's number is at from, and greeted bytes are enough to see it.
const (
	greeted = 28
	from    = 20
)

func (l *links) connect(dialer net.Conn, to int, real string) {
	defer dialer.Close()
	if !l.keep(dialer) {
		return
	}
	hello := make([]byte, greeted)
	if _, err := io.ReadFull(dialer, hello); err != nil {
		return
	}
	l.mu.Lock()
	site, known := l.sites[binary.LittleEndian.Uint64(hello[from:])]
	l.mu.Unlock()
	if !known {
		return // it dials again
	}
	listener, err := net.Dial("tcp", real)
	if err != nil {
		return // the member is down, as the dialer will see
	}
	defer listener.Close()
	if !l.keep(listener) {
		return
	}
	way := widearea.RoundTrip(site, to) / 2
	time.Sleep(way)
	if _, err := listener.Write(hello); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { carry(listener, dialer, way) })
	both.Go(func() { carry(dialer, listener, way) })
	both.Wait()
}

// piece is what has arrived, and when it may leave.
type piece struct {
	data []byte
	due  time.Time
}

// carry copies what one side of a connection sends, late.
func carry(dst, src net.Conn, way time.Duration) {
	underWay := make(chan piece, 4096)
	go func() {
		defer close(underWay)
		for {
			data := make([]byte, 32<<10)
			n, err := src.Read(data)
			if n > 0 {
				underWay <- piece{data[:n:n], time.Now().Add(way)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range underWay {
		time.Sleep(time.Until(p.due))
		if _, err := dst.Write(p.data); err != nil {
			break
		}
	}
	dst.Close()
	src.Close()
	for range underWay { // until the reader has seen that
	}
}
