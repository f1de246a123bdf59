package server

import (
	"net"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/peer"
)

const (
	// handshakePatience is how long a client may take for its handshake, and for the bytes that
	// show its protocol.
	handshakePatience = 10 * time.Second
	// strangersMax is how many connections may be in their handshake. It is far above what a
	// member works off in a second, so that many clients may come at once.
	strangersMax = 1024
)

// strangers are the connections that are in their TLS handshake or, without TLS, have not shown
// which protocol they speak. Without a bound, clients without a certificate could take all file
// descriptors of the member.
type strangers struct {
	guests peer.Guests
	most   int

	mu     sync.Mutex
	inside map[net.Conn]*peer.Guest
}

// enter takes the connection of a stranger in, and puts out another's, if there is no room.
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
