package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// zkSession is a session of ZooKeeper's of which nothing is wanted but to stay alive. The
// client library pings by itself, when it likes; this says ZooKeeper's few words for it,
// as its ConnectRequest and RequestHeader have them.
type zkSession struct {
	addr string
	conn net.Conn // nil until the first ping
	rd   *bufio.Reader
}

const (
	zkPingXid  = -2
	zkPingType = 11
)

// open begins the session.
func (s *zkSession) open() (err error) {
	if s.conn, err = net.Dial("tcp", s.addr); err != nil {
		return err
	}
	s.rd = bufio.NewReader(s.conn)
	hello := make([]byte, 0, 44)
	hello = binary.BigEndian.AppendUint32(hello, 0) // version
	hello = binary.BigEndian.AppendUint64(hello, 0) // last zxid seen
	hello = binary.BigEndian.AppendUint32(hello, uint32(ttl.Milliseconds()))
	hello = binary.BigEndian.AppendUint64(hello, 0)  // a new session
	hello = binary.BigEndian.AppendUint32(hello, 16) // and its password
	hello = append(hello, make([]byte, 16)...)
	answer, err := s.exchange(hello)
	if err == nil && (len(answer) < 8 || binary.BigEndian.Uint32(answer[4:]) == 0) {
		err = fmt.Errorf("no session: % x", answer)
	}
	return err
}

func (s *zkSession) close() {
	if s.conn != nil {
		s.conn.Close()
	}
}

// ping renews the session.
func (s *zkSession) ping() error {
	if s.conn == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	var xid int32 = zkPingXid
	request := binary.BigEndian.AppendUint32(nil, uint32(xid))
	answer, err := s.exchange(binary.BigEndian.AppendUint32(request, zkPingType))
	if err == nil && (len(answer) != 16 || int32(binary.BigEndian.Uint32(answer)) != xid) {
		err = fmt.Errorf("no answer to a ping: % x", answer)
	}
	return err
}

// exchange sends a packet and returns the next that comes.
func (s *zkSession) exchange(body []byte) ([]byte, error) {
	if err := s.conn.SetDeadline(time.Now().Add(ttl)); err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(s.rd, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 1<<10 {
		return nil, fmt.Errorf("a packet of %d bytes", n)
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(s.rd, answer)
	return answer, err
}
