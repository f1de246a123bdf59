package peer

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Guests are the connections that are not known to be of a peer: in their handshake, or
// with a question. Their number is bounded. Beyond it the oldest of the source that has
// most of them is put out, so that a stranger puts out a stranger's, and a member, whose
// handshake takes milliseconds, gets in. The zero value is empty. Other ports than a
// transport's may have guests, too.
type Guests struct {
	mu     sync.Mutex
	inside []*Guest // the oldest first
}

// A Guest is one of them.
type Guest struct {
	conn   net.Conn
	source string
	stay   context.Context // ends when it is put out
	end    context.CancelFunc
}

// guestsMin is how many guests there may be at least. Each peer may have one for messages,
// one for a stream, and two that confirm ours.
const (
	guestsMin     = 64
	guestsPerPeer = 4
)

func (t *Transport) guestsMax() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return guestsMin + guestsPerPeer*len(t.remotes)
}

// Enter takes a guest in, and puts out the one that has to go for it, if there is no room.
func (g *Guests) Enter(c net.Conn, limit int) (in, out *Guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	in = &Guest{conn: c, source: source(c.RemoteAddr())}
	in.stay, in.end = context.WithCancel(context.Background())
	g.inside = append(g.inside, in)
	if len(g.inside) <= limit {
		return in, nil
	}
	counts := map[string]int{}
	for _, in := range g.inside {
		counts[in.source]++
	}
	worst := 0
	for i, in := range g.inside {
		if counts[in.source] > counts[g.inside[worst].source] {
			worst = i
		}
	}
	out = g.inside[worst]
	g.inside = slices.Delete(g.inside, worst, worst+1)
	out.end()
	out.conn.Close()
	return in, out
}

// Leave lets go of a guest, if it is still one.
func (g *Guests) Leave(in *Guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.inside, in); i >= 0 {
		g.inside = slices.Delete(g.inside, i, i+1)
	}
}

// source is what one stranger has in common with himself: an IPv4 address, or a network
// of IPv6, of which anybody has a whole one.
func source(addr net.Addr) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.String()
	}
	ip := at.Addr().Unmap()
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	net, err := ip.Prefix(bits)
	if err != nil {
		return addr.String()
	}
	return net.String()
}
