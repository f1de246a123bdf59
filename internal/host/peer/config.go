package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config describes one member's end of all streams. Callbacks must not call
// Close; all other methods of the transport are fine.
type Config struct {
	// Self is this member, ClusterID what all members have in common. Both are
	// checked in every handshake.
	Self      machine.NodeID
	ClusterID uint64
	// Listener is where the others dial. The transport owns it from now on.
	Listener net.Listener
	// Peers are the addresses (host:port) of the other members, until SetPeers says
	// otherwise. Self may be among them and is passed over.
	Peers map[machine.NodeID]string
	// TLS is used for both directions: Certificates for both, RootCAs when
	// dialing, ClientCAs and ClientAuth when accepting. ServerName defaults to
	// the host dialed. Nil means plain TCP.
	TLS *tls.Config

	// Dial connects to the other members; nil means by TCP.
	Dial DialFunc

	// FrameBytesMax bounds a frame, and so a message; larger ones are dropped.
	// 0 means 64 MiB. It has to be the same on all members.
	FrameBytesMax int
	// QueueBytes bounds what waits or is being written to one peer. 0 means
	// 64 MiB.
	QueueBytes int
	// StreamBytesPerSecond slows SendStream down so that it leaves room for
	// messages. 0 means as fast as it goes.
	StreamBytesPerSecond int

	// Deliver is given each batch of messages, in order, by one goroutine per
	// peer. Blocking in it holds that peer back and nobody else. The messages
	// are valid only during the call.
	Deliver func(from machine.NodeID, msgs [][]byte)
	// Stream is given each bulk stream, one at a time per peer. It reads r to
	// its end, or fails; its error is what the sender's SendStream returns. A
	// stream that was cut off ends with an error, never with io.EOF. Nil
	// refuses streams. The header is valid for good.
	Stream func(from machine.NodeID, header []byte, r io.Reader) error

	// Answer gets the question of a call of [Ask], from 0 bytes to 16 KiB, and returns the
	// answer, 1 MiB at most. Strangers ask, too, not only members: the question must not be
	// believed, and the answer must prove nothing. Four goroutines may call it at a time.
	// Nil refuses questions.
	Answer func(said []byte) []byte

	// Greeting, if it is not nil, gives the first message of each connection to a peer.
	// Messages of Send come after it.
	Greeting func(machine.NodeID) []byte

	// Up, Down, Unreachable and Refused may be nil. One goroutine calls them, in
	// order.
	//
	// Up is called when messages can be sent to a peer, at first or again.
	Up func(machine.NodeID)
	// Down is called when a peer's process has died, as told in the package
	// comment.
	Down func(id machine.NodeID, reason error)
	// Unreachable is called once when messages to a peer begin to be lost.
	// After Up, or once its queue has drained, it may be called again.
	Unreachable func(machine.NodeID)
	// Refused is called when a peer begins to refuse us, or for a new reason;
	// see the errors of this package.
	Refused func(id machine.NodeID, reason error)

	// Logger is told about connections; nil means slog.Default.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.FrameBytesMax == 0 {
		c.FrameBytesMax = 64 << 20
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 64 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Dial = c.Dial.orTCP()
	return c
}

func (c Config) validate() error {
	switch {
	case c.Self == 0:
		return errors.New("peer: Self is 0, which is no member's ID")
	case c.Listener == nil:
		return errors.New("peer: Listener is missing")
	case c.Deliver == nil:
		return errors.New("peer: Deliver is missing")
	case c.FrameBytesMax < 1 || c.FrameBytesMax > 1<<30:
		return fmt.Errorf("peer: FrameBytesMax is %d: must be from 1 to 1 GiB", c.FrameBytesMax)
	case c.QueueBytes < 1:
		return fmt.Errorf("peer: QueueBytes is %d: must be positive", c.QueueBytes)
	case c.StreamBytesPerSecond < 0:
		return fmt.Errorf("peer: StreamBytesPerSecond is %d: must not be negative", c.StreamBytesPerSecond)
	case c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil:
		return errors.New("peer: TLS has no certificate")
	}
	for id, addr := range c.Peers {
		if _, _, err := net.SplitHostPort(addr); err != nil || id == 0 {
			return fmt.Errorf("peer: member %x at %q: want an id other than 0 and host:port", uint64(id), addr)
		}
	}
	return nil
}

// timing holds the constants that the tests make shorter.
type timing struct {
	handshake  time.Duration // for TCP, TLS and greeting, on either side
	ping       time.Duration // between pings
	silence    time.Duration // until a connection is given up; also for a write
	backoffMin time.Duration
	backoffMax time.Duration
}

var defaultTiming = timing{
	handshake:  5 * time.Second,
	ping:       500 * time.Millisecond,
	silence:    5 * time.Second,
	backoffMin: 10 * time.Millisecond,
	backoffMax: time.Second,
}
