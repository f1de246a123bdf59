package peer

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// deadlined is a connection that notes until when it may be written.
type deadlined struct {
	net.Conn
	mu         sync.Mutex
	was, ended bool // there was a deadline, and then none
}

func (d *deadlined) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = d.ended || d.was && at.IsZero()
	d.was = d.was || !at.IsZero()
}

func (d *deadlined) SetDeadline(at time.Time) error { d.set(at); return d.Conn.SetDeadline(at) }
func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.set(at)
	return d.Conn.SetWriteDeadline(at)
}

// lifted reports whether there was a deadline, and then none.
func (d *deadlined) lifted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// deadlining is a listener of such connections.
type deadlining struct {
	net.Listener
	mu  sync.Mutex
	all []*deadlined
}

func (l *deadlining) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, &deadlined{Conn: c})
	return l.all[len(l.all)-1], nil
}

// A connection that was taken in is a peer's: the deadline of its handshake holds no more, and it takes no room of guests.
func TestAConnectionThatIsTakenIn(t *testing.T) {
	ln := &deadlining{}
	all := newCluster(t, 2, quick, func(id machine.NodeID, c *Config) {
		if id == 1 {
			ln.Listener = c.Listener
			c.Listener = ln
		}
	})
	poll(t, "a connection without the deadline of its handshake", func() bool {
		ln.mu.Lock()
		defer ln.mu.Unlock()
		for _, c := range ln.all {
			if c.lifted() {
				return true
			}
		}
		return false
	})
	for _, m := range all {
		poll(t, "a connection of a peer to leave the guests", func() bool {
			m.guests.mu.Lock()
			defer m.guests.mu.Unlock()
			return len(m.guests.inside) == 0
		})
	}
}

// That the connection of a peer ends which SetPeers took out is no event, and the log does not tell it.
func TestTheEndOfAPeerThatIsNoneAnyMore(t *testing.T) {
	all := newCluster(t, 2, quick, nil)
	m := all[0]
	m.mu.Lock()
	m.Transport.mu.Lock()
	before := make([]net.Conn, 0, len(m.conns))
	for c := range m.conns {
		before = append(before, c)
	}
	m.Transport.mu.Unlock()
	m.mu.Unlock()
	if err := m.SetPeers(nil, nil); err != nil {
		t.Fatal(err)
	}
	poll(t, "the end of the connections with a peer that is none any more", func() bool {
		m.Transport.mu.Lock()
		defer m.Transport.mu.Unlock()
		for _, c := range before {
			if _, open := m.conns[c]; open {
				return false
			}
		}
		return true
	})
	if said := m.log.String(); strings.Contains(said, "connection from member ended") {
		t.Errorf("the end of a connection that SetPeers has ended is told as one of the member's:\n%s", said)
	}
}
