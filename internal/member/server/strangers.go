package server

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tenure-lease/tenure/internal/host/peer"
)

const (
	// handshakePatience is how long a client may take for its handshake.
	handshakePatience = 10 * time.Second
	// strangersMax is how many connections may be in their TLS handshake. It is far above what a
	// member works off in a second, so that many clients may come at once.
	strangersMax = 1024
)

// strangers are the connections that are in their TLS handshake. Without a bound, clients without
// a certificate could take all file descriptors of the member.
type strangers struct {
	guests peer.Guests
	most   int

	mu     sync.Mutex
	inside map[net.Conn]*peer.Guest
}

// A door is a listener whose connections are strangers'.
type door struct {
	net.Listener
	strangers *strangers
}

// Accept takes the connection of a stranger in, and puts out another's, if there is no room.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err == nil {
		d.strangers.enter(c)
	}
	return c, err
}

func (s *strangers) enter(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside == nil {
		s.inside = map[net.Conn]*peer.Guest{}
	}
	s.inside[c], _ = s.guests.Enter(c, s.most)
}

func (s *strangers) leave(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.inside[c]; in != nil {
		s.guests.Leave(in)
		delete(s.inside, c)
	}
}

// An introduction makes clients of strangers: its handshake lets them in or turns them away.
type introduction struct {
	credentials.TransportCredentials
	strangers *strangers
}

// ServerHandshake makes the handshake. Whatever comes of it, the connection is a stranger's no more.
func (i *introduction) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer i.strangers.leave(c)
	return i.TransportCredentials.ServerHandshake(c)
}

// Clone is a part of the interface.
func (i *introduction) Clone() credentials.TransportCredentials {
	return &introduction{i.TransportCredentials.Clone(), i.strangers}
}
