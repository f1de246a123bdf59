package peertest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// Target is a member as others have it, and where it really listens.
type Target struct{ Address, Real string }

// Socks listens, as a SOCKS5 proxy, for all that a member dials, and returns where. Members
// are found by what they call each other, which need not be an address of this machine.
func (l *Links) Socks(from int, members []Target) (string, error) {
	return l.listen("127.0.0.1:0", func(conn net.Conn) { l.socks(conn, from, members) })
}

func (l *Links) socks(dialer net.Conn, from int, members []Target) {
	dialer.SetReadDeadline(time.Now().Add(patience))
	address, err := asked(dialer)
	if err != nil {
		return
	}
	dialer.SetReadDeadline(time.Time{})
	who := func() int { return from }
	for to, m := range members {
		if m.Address != address {
			continue
		}
		// A connection takes the way there and back, as between machines.
		if l.pass(who, to, false, time.Now()) != nil {
			return
		}
		listener, err := net.Dial("tcp", m.Real)
		if l.pass(who, to, true, time.Now()) != nil {
			return
		}
		if err != nil {
			answer(dialer, refused)
			return
		}
		if answer(dialer, granted) != nil {
			listener.Close()
			return
		}
		l.join(dialer, listener, who, to)
		return
	}
	answer(dialer, unreachable)
}

// RFC 1928: the opening, and the kinds of addresses and answers that are needed here.
const (
	version     = 5
	connect     = 1
	ip4         = 1
	name        = 3
	granted     = 0
	unreachable = 4
	refused     = 5
)

var errSocks = errors.New("not what is spoken here")

// asked reads whom a dialer wants: host and port.
func asked(c net.Conn) (string, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return "", err
	}
	if head[0] != version {
		return "", errSocks
	}
	if _, err := io.CopyN(io.Discard, c, int64(head[1])); err != nil { // ways to authenticate
		return "", err
	}
	if _, err := c.Write([]byte{version, 0}); err != nil { // none is needed
		return "", err
	}
	request := make([]byte, 4)
	if _, err := io.ReadFull(c, request); err != nil {
		return "", err
	}
	if request[0] != version || request[1] != connect {
		return "", errSocks
	}
	length := []byte{4}
	switch request[3] {
	case ip4:
	case name:
		if _, err := io.ReadFull(c, length); err != nil {
			return "", err
		}
	default:
		return "", errSocks
	}
	host, port := make([]byte, length[0]), make([]byte, 2)
	if _, err := io.ReadFull(c, host); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(c, port); err != nil {
		return "", err
	}
	text := string(host)
	if request[3] == ip4 {
		text = netip.AddrFrom4([4]byte(host)).String()
	}
	return net.JoinHostPort(text, strconv.Itoa(int(binary.BigEndian.Uint16(port)))), nil
}

// answer tells a dialer whether it has its connection. Where that comes from is not said.
func answer(c net.Conn, how byte) error {
	_, err := c.Write([]byte{version, how, 0, ip4, 0, 0, 0, 0, 0, 0})
	return err
}
