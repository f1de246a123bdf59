package network

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// Network connects the processes of a world. All methods may be called by any goroutine
// of it.
type Network struct {
	w *world.World

	mu        sync.Mutex
	rand      *rand.Rand
	min, max  time.Duration // of a way, in one direction
	far       func(from, to string) time.Duration
	lost      int // one in so many is lost, and sent again; 0: none
	listeners map[string]*Listener
	conns     []*pair
	cuts      map[[2]string]int // from, to; "" is everybody
	off       map[string]bool   // hosts without power
	changed   sync.Cond         // a cut has healed, a host has its power back
	ports     int
}

// New returns a network on which a byte is under way for min to max in each direction.
func New(w *world.World, min, max time.Duration) *Network {
	n := &Network{
		w: w, rand: w.Rand("network"), min: min, max: max,
		listeners: map[string]*Listener{}, cuts: map[[2]string]int{}, off: map[string]bool{},
	}
	n.changed.L = &n.mu
	return n
}

// addr is an address: host:port.
type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		panic(fmt.Sprintf("network: address %q: %v", address, err))
	}
	return host
}

// Listener takes connections to an address. It is a process's, and ends with it.
type Listener struct {
	n       *Network
	p       *world.Process
	at      addr
	backlog []*conn
	ready   sync.Cond
	closed  bool
}

var _ net.Listener = (*Listener)(nil)

// Listen begins to listen for a process, whose name is the host of the address.
func (n *Network) Listen(p *world.Process, port int) (*Listener, error) {
	at := addr(fmt.Sprintf("%s:%d", p.Name(), port))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[string(at)] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: at, Err: syscall.EADDRINUSE}
	}
	l := &Listener{n: n, p: p, at: at}
	l.ready.L = &n.mu
	n.listeners[string(at)] = l
	return l, nil
}

// Addr is where the listener listens.
func (l *Listener) Addr() net.Addr { return l.at }

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) {
	gone := &net.OpError{Op: "accept", Net: "tcp", Addr: l.at, Err: net.ErrClosed}
	if l.p.Do(world.Network, "accept", "") != nil {
		return nil, gone
	}
	l.n.mu.Lock()
	for len(l.backlog) == 0 && !l.closed {
		l.ready.Wait()
	}
	if l.closed {
		l.n.mu.Unlock()
		return nil, gone
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	l.n.mu.Unlock()
	l.p.Gate()
	return c, nil
}

// Close ends the listener, and resets connections that were not accepted.
func (l *Listener) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	l.close()
	return nil
}

func (l *Listener) close() {
	if l.closed {
		return
	}
	l.closed = true
	if l.n.listeners[string(l.at)] == l {
		delete(l.n.listeners, string(l.at))
	}
	for _, c := range l.backlog {
		c.closed = true // by the kernel: no process has got it
		c.pair.reset()
	}
	l.backlog = nil
	l.ready.Broadcast()
}

// Dialer connects for a process.
func (n *Network) Dialer(p *world.Process) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		if err := p.Do(world.Network, "dial", address); err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
		}
		c, err := n.dial(ctx, p, address)
		p.Gate()
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr(address), Err: err}
		}
		return c, nil
	}
}

// dial does as TCP does: without a listener it is refused, and where nothing gets through it
// goes on until the context ends.
func (n *Network) dial(ctx context.Context, p *world.Process, address string) (net.Conn, error) {
	from, to := p.Name(), hostOf(address)
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.changed.Broadcast()
	})
	defer stop()
	for range 2 { // SYN, and its answer
		n.mu.Lock()
		for (n.blocked(from, to) || n.blocked(to, from)) && ctx.Err() == nil {
			n.changed.Wait()
		}
		way := n.way(from, to)
		n.mu.Unlock()
		select {
		case <-time.After(way):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.Ended():
			return nil, world.ErrDead
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	l := n.listeners[address]
	if l == nil || len(l.backlog) >= 128 {
		return nil, syscall.ECONNREFUSED
	}
	n.ports++
	here := addr(fmt.Sprintf("%s:%d", from, 30000+n.ports))
	pr := newPair(n, p, here, l.p, l.at)
	n.conns = append(n.conns, pr)
	l.backlog = append(l.backlog, pr.ends[1])
	l.ready.Broadcast()
	n.w.Count("connections", 1)
	return pr.ends[0], nil
}

// Far makes ways longer by the result of f, in each direction.
func (n *Network) Far(f func(from, to string) time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.far = f
}

// Lose loses one in so many sends, and TCP sends the data again after a while.
func (n *Network) Lose(oneIn int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = oneIn
}

// again is the time at which TCP sends unacknowledged data again.
const again = 200 * time.Millisecond

// way is how long a byte is under way. The lock is held.
func (n *Network) way(from, to string) time.Duration {
	way := n.min
	if n.max > n.min {
		way += time.Duration(n.rand.Int64N(int64(n.max - n.min)))
	}
	if n.far != nil {
		way += n.far(from, to)
	}
	if n.lost > 0 && n.rand.IntN(n.lost) == 0 {
		way += again
	}
	return way
}

// blocked reports whether nothing gets from one host to another. The lock is held.
func (n *Network) blocked(from, to string) bool {
	return n.off[from] || n.off[to] || n.cuts[[2]string{from, to}] > 0 || n.cuts[[2]string{from, ""}] > 0 || n.cuts[[2]string{"", to}] > 0
}

// Cut lets nothing get from one host to another for a while; "" is any host. Lost data arrives
// afterwards, as TCP sends it again. Heal ends it sooner.
func (n *Network) Cut(from, to string, d time.Duration) (heal func()) {
	key := [2]string{from, to}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[key]++
	over := sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cuts[key]--
		n.flow()
	})
	timer := time.AfterFunc(d, over)
	return func() { timer.Stop(); over() }
}

// Isolate cuts a host off in both directions.
func (n *Network) Isolate(host string, d time.Duration) (heal func()) {
	there, back := n.Cut(host, "", d), n.Cut("", host, d)
	return func() { there(); back() }
}

// flow moves on the data that was held up. The lock is held.
func (n *Network) flow() {
	n.changed.Broadcast()
	for _, pr := range n.conns {
		for _, c := range pr.ends {
			c.in.arrive()
		}
	}
}

// Reset resets the connections between two hosts; "" is any.
func (n *Network) Reset(a, b string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pr := range n.between(a, b) {
		pr.reset()
		count++
	}
	return count
}

// between are the connections between two hosts; "" is any. The lock is held.
func (n *Network) between(a, b string) (list []*pair) {
	n.conns = slices.DeleteFunc(n.conns, func(pr *pair) bool { return pr.over() })
	for _, pr := range n.conns {
		if pr.between(a, b) || pr.between(b, a) {
			list = append(list, pr)
		}
	}
	return list
}

// Exit ends a process's connections: its kernel closes them, and the others hear of it.
func (n *Network) Exit(p *world.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leave(p, func(pr *pair, end int) { pr.exit(end) })
}

// PowerOff ends a process's connections, and no other hears of it: the connections of others
// are half open until they send something after PowerOn, or give up.
func (n *Network) PowerOff(p *world.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off[p.Name()] = true
	n.leave(p, func(pr *pair, end int) { pr.vanish(end) })
}

// PowerOn lets a host answer again.
func (n *Network) PowerOn(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.off, host)
	n.flow()
}

// HalfOpen makes a host forget its connections, as after a change of address or of a
// firewall's mind: its own end is reset, and the others are told nothing until they send. Their ends stay
// theirs, and end with their processes.
func (n *Network) HalfOpen(host string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pr := range n.between(host, "") {
		for end, c := range pr.ends {
			if c.p.Name() == host && !c.gone {
				pr.vanish(end)
				count++
			}
		}
	}
	return count
}

func (n *Network) leave(p *world.Process, f func(*pair, int)) {
	for _, l := range n.listeners {
		if l.p == p {
			l.close()
		}
	}
	n.conns = slices.DeleteFunc(n.conns, func(pr *pair) bool { return pr.over() })
	for _, pr := range n.conns {
		for end, c := range pr.ends {
			if c.p == p {
				f(pr, end)
			}
		}
	}
}

// Has is how many listeners and ends of connections a process has not closed.
func (n *Network) Has(p *world.Process) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		if l.p == p {
			count++
		}
	}
	for _, pr := range n.conns {
		for _, c := range pr.ends {
			if c.p == p && !c.closed {
				count++
			}
		}
	}
	return count
}

// Open is how many connections there are.
func (n *Network) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = slices.DeleteFunc(n.conns, func(pr *pair) bool { return pr.over() })
	return len(n.conns)
}
