package peer

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/wire"
)

const (
	protocolMagic   = "TENUREPR"
	protocolVersion = 2
	prefixBytes     = 10 // of a greeting: magic and version, which never change
	helloBytes      = 64
	welcomeBytes    = 20
	reasonBytesMax  = 1024
)

type streamKind byte

const (
	kindMessages streamKind = 1
	kindBulk     streamKind = 2
	kindInquiry  streamKind = 3
	kindConfirm  streamKind = 4
)

// ticket is drawn at random for a connection by the process that dials it, and told to
// nobody but the member that it dials; see confirm.go.
type ticket [16]byte

func newTicket() (t ticket) {
	rand.Read(t[:]) // never fails
	return t
}

// hello is how a dialer introduces itself.
type hello struct {
	kind     streamKind
	cluster  uint64
	from, to machine.NodeID
	instance uint64 // of the dialing process
	ticket   ticket // of this connection; in a question of kindConfirm, of the one asked about
}

func (h hello) encode() []byte {
	b := make([]byte, helloBytes)
	copy(b, protocolMagic)
	le.PutUint16(b[8:], protocolVersion)
	b[10] = byte(h.kind)
	le.PutUint64(b[12:], h.cluster)
	le.PutUint64(b[20:], uint64(h.from))
	le.PutUint64(b[28:], uint64(h.to))
	le.PutUint64(b[36:], h.instance)
	copy(b[44:], h.ticket[:])
	le.PutUint32(b[60:], wire.Checksum(b[:60]))
	return b
}

// introduce sends a hello and reads the answer.
func (h hello) introduce(c net.Conn) error {
	if _, err := c.Write(h.encode()); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	return readWelcome(c, h.to)
}

// readHello reads a hello. The status is that to answer with, besides the error.
func readHello(r io.Reader) (hello, status, error) {
	var b [helloBytes]byte
	if _, err := io.ReadFull(r, b[:prefixBytes]); err != nil {
		return hello{}, statusGarbage, noEOF(err)
	}
	if string(b[:8]) != protocolMagic {
		return hello{}, statusGarbage, violation("the connection starts with %q: no Tenure peer, or one with TLS", b[:8])
	}
	if v := le.Uint16(b[8:]); v != protocolVersion {
		return hello{}, statusVersion, fmt.Errorf("peer: the other side speaks protocol %d and this program %d: %w",
			v, protocolVersion, ErrVersion)
	}
	if _, err := io.ReadFull(r, b[prefixBytes:]); err != nil {
		return hello{}, statusGarbage, noEOF(err)
	}
	if wire.Checksum(b[:60]) != le.Uint32(b[60:]) || b[11] != 0 {
		return hello{}, statusGarbage, violation("the greeting is damaged")
	}
	h := hello{
		kind:     streamKind(b[10]),
		cluster:  le.Uint64(b[12:]),
		from:     machine.NodeID(le.Uint64(b[20:])),
		to:       machine.NodeID(le.Uint64(b[28:])),
		instance: le.Uint64(b[36:]),
		ticket:   ticket(b[44:60]),
	}
	if h.kind < kindMessages || h.kind > kindConfirm {
		return hello{}, statusGarbage, violation("a stream of kind %d", h.kind)
	}
	return h, statusWelcome, nil
}

// status is the answer to a hello.
type status byte

const (
	statusWelcome status = iota
	statusGarbage
	statusVersion
	statusWrongCluster
	statusUnknownMember
	statusWrongAddress
	statusDuplicateID
	statusBusy
	statusUnsupported
	statusRemoved
	statusUnconfirmed
	statusNotMine
)

// err is the sentinel that a refused dialer gets.
func (s status) err() error {
	switch s {
	case statusVersion:
		return ErrVersion
	case statusWrongCluster:
		return ErrWrongCluster
	case statusUnknownMember:
		return ErrUnknownMember
	case statusWrongAddress:
		return ErrWrongAddress
	case statusDuplicateID:
		return ErrDuplicateID
	case statusBusy:
		return errBusy
	case statusUnsupported:
		return errUnsupported
	case statusRemoved:
		return ErrRemoved
	case statusUnconfirmed:
		return ErrUnconfirmed
	case statusNotMine:
		return errNotMine
	}
	return errProtocol
}

func encodeWelcome(s status, reason string) []byte {
	reason = reason[:min(len(reason), reasonBytesMax)]
	b := make([]byte, welcomeBytes, welcomeBytes+len(reason))
	copy(b, protocolMagic)
	le.PutUint16(b[8:], protocolVersion)
	b[10] = byte(s)
	le.PutUint32(b[12:], uint32(len(reason)))
	le.PutUint32(b[16:], frameSum(b[:16], []byte(reason)))
	return append(b, reason...)
}

// readWelcome reads the answer of a member; nil means welcome, a *Refusal that
// it was understood and refused.
func readWelcome(r io.Reader, by machine.NodeID) error {
	var b [welcomeBytes]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return fmt.Errorf("peer: no answer to the greeting: %w", noEOF(err))
	}
	n := le.Uint32(b[12:])
	if string(b[:8]) != protocolMagic || b[11] != 0 || n > reasonBytesMax {
		return violation("the answer starts with %q: no Tenure peer, or one with TLS", b[:8])
	}
	reason := make([]byte, n)
	if _, err := io.ReadFull(r, reason); err != nil {
		return fmt.Errorf("peer: no answer to the greeting: %w", noEOF(err))
	}
	if frameSum(b[:16], reason) != le.Uint32(b[16:]) {
		return violation("the answer is damaged")
	}
	if s := status(b[10]); s != statusWelcome {
		return &Refusal{By: by, Reason: string(reason), kind: s.err()}
	}
	return nil
}
