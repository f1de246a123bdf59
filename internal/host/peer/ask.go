package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

const (
	// questionMax and answerMax bound a question and an answer, which may be anybody's.
	questionMax = 16 << 10
	answerMax   = 1 << 20
	// answersMax bounds the questions that are being thought about.
	answersMax = 4
)

// Ask says something, 16 KiB at most, to the member that listens at an address, and returns
// what its Config.Answer gives. It is for processes that do not know each other. One that
// wants to become a member knows only addresses of others, and one that was away for long
// may know none of the present members. A nil configuration means no TLS and a nil DialFunc
// plain TCP, as in Config.
func Ask(ctx context.Context, addr string, with *tls.Config, dial DialFunc, say []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultTiming.handshake)
	defer cancel()
	raw, err := dial.orTCP()(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })()
	c, err := secure(ctx, raw, with, addr)
	if err != nil {
		return nil, err
	}
	if err := (hello{kind: kindInquiry}).introduce(c); err != nil {
		return nil, err
	}
	if _, err := c.Write(appendFrame(nil, frameHeader, say)); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	typ, body, err := readFrame(bufio.NewReader(c), nil, answerMax)
	if err == nil && typ != frameHeader {
		err = violation("a frame of type %d where an answer belongs", typ)
	}
	return body, err
}

// answer answers a question.
func (t *Transport) answer(conn net.Conn, by *Guest) {
	if err := conn.SetDeadline(time.Now().Add(t.timing.handshake)); err != nil {
		return
	}
	typ, said, err := readFrame(bufio.NewReader(conn), nil, questionMax)
	if err == nil && typ != frameHeader {
		err = violation("a frame of type %d where a question belongs", typ)
	}
	if err == nil {
		select {
		case t.answering <- struct{}{}:
			answer := t.cfg.Answer(said)
			<-t.answering
			_, err = conn.Write(appendFrame(nil, frameHeader, answer))
		case <-by.stay.Done():
			err = net.ErrClosed
		}
	}
	if err != nil {
		t.refusals.Warn(t.cfg.Logger, "peer: a question was not answered", "from", conn.RemoteAddr(), "error", err)
	}
}
