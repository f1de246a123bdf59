package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// incoming is a stream of messages from a peer.
type incoming struct {
	instance uint64
	hangUp   func()
	heard    chan struct{} // nudged by each frame
	busy     atomic.Bool   // in Deliver
	replaced atomic.Bool
	done     chan struct{} // closed when nothing is delivered any more
}

// serve handles an accepted connection. It is a guest's until it is known to be of a
// peer, and so for good if it brings a question.
func (t *Transport) serve(by *Guest) {
	raw := by.conn
	conn, r, h, err := t.welcome(by)
	if err != nil {
		if t.ctx.Err() == nil {
			t.refusals.Warn(t.cfg.Logger, "peer: connection refused", "from", raw.RemoteAddr(), "member", hex(h.from), "error", err)
		}
		return
	}
	switch h.kind {
	case kindConfirm:
		return
	case kindInquiry:
		t.answer(conn, by)
		return
	}
	t.guests.Leave(by)
	if h.kind == kindBulk {
		defer context.AfterFunc(r.ctx, func() { raw.Close() })() // or it would go on when r is no peer any more
		t.serveBulk(conn, r)
		return
	}
	in := &incoming{
		instance: h.instance,
		hangUp:   func() { raw.Close() },
		heard:    make(chan struct{}, 1),
		done:     make(chan struct{}),
	}
	if err := t.admit(conn, r, in); err != nil {
		t.refusals.Warn(t.cfg.Logger, "peer: connection refused", "from", raw.RemoteAddr(), "member", hex(h.from), "error", err)
		return
	}
	err = r.receive(conn, in)
	raw.Close()
	r.wentOut(in, err)
	close(in.done)
	if t.ctx.Err() == nil && !in.replaced.Load() {
		t.cfg.Logger.Warn("peer: connection from member ended", "member", hex(r.id), "from", raw.RemoteAddr(), "error", err)
	}
}

// welcome reads the greeting and refuses what does not belong here. A bulk
// stream is answered, and holds its peer's token; one of messages is not yet.
func (t *Transport) welcome(by *Guest) (conn net.Conn, r *remote, h hello, err error) {
	raw := by.conn
	if err := raw.SetDeadline(time.Now().Add(t.timing.handshake)); err != nil {
		return nil, nil, h, err
	}
	conn = raw
	if t.cfg.TLS != nil {
		tc := tls.Server(raw, t.cfg.TLS)
		if err := tc.HandshakeContext(t.ctx); err != nil {
			return nil, nil, h, fmt.Errorf("TLS handshake: %w", err)
		}
		conn = tc
	}
	h, s, err := readHello(conn)
	if err == nil {
		r, s, err = t.judge(h)
	}
	if err == nil && r != nil {
		s, err = t.confirmed(r, h, by)
	}
	if err == nil && h.kind == kindBulk {
		select {
		case r.bulkIn <- struct{}{}:
			if _, err = conn.Write(encodeWelcome(statusWelcome, "")); err != nil {
				<-r.bulkIn
			}
			return conn, r, h, err
		default:
			s, err = statusBusy, errBusy
		}
	}
	if err == nil && r == nil { // a question
		_, err = conn.Write(encodeWelcome(statusWelcome, ""))
		return conn, r, h, err
	}
	// A process that does not speak the protocol gets no answer.
	if err != nil && s != statusGarbage {
		conn.Write(encodeWelcome(s, err.Error()))
	}
	return conn, r, h, err
}

// judge reports whether the sender of a greeting may belong here. For a peer it returns the
// member that the greeting names; a question names none.
func (t *Transport) judge(h hello) (*remote, status, error) {
	t.mu.Lock()
	r, removed := t.remotes[h.from], slices.Contains(t.removed, h.from)
	t.mu.Unlock()
	switch {
	case h.kind == kindInquiry && t.cfg.Answer == nil:
		return nil, statusUnsupported, errUnsupported
	case h.kind == kindInquiry:
		return nil, statusWelcome, nil
	case h.cluster != t.cfg.ClusterID:
		return nil, statusWrongCluster, fmt.Errorf("%w: this is %x, you are of %x", ErrWrongCluster, t.cfg.ClusterID, h.cluster)
	case h.to != t.cfg.Self:
		return nil, statusWrongAddress, fmt.Errorf("%w: this is %x, you want %x", ErrWrongAddress, uint64(t.cfg.Self), uint64(h.to))
	case h.kind == kindConfirm && !t.mine(h):
		return nil, statusNotMine, errNotMine
	case h.kind == kindConfirm:
		return nil, statusWelcome, nil
	case h.from == t.cfg.Self:
		return nil, statusDuplicateID, fmt.Errorf("%w: this process is %x too", ErrDuplicateID, uint64(h.from))
	case removed:
		return nil, statusRemoved, fmt.Errorf("%w: %x", ErrRemoved, uint64(h.from))
	case r == nil:
		return nil, statusUnknownMember, fmt.Errorf("%w: %x is not known here", ErrUnknownMember, uint64(h.from))
	case h.kind == kindBulk && t.cfg.Stream == nil:
		return nil, statusUnsupported, errUnsupported
	}
	return r, statusWelcome, nil
}

// admit makes in the one incoming stream of its peer. A process that dials again
// replaces its own stream; another process with the same id has to wait until it
// is clear whether the first is alive.
func (t *Transport) admit(conn net.Conn, r *remote, in *incoming) error {
	deadline := time.NewTimer(t.timing.handshake)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		if r.ctx.Err() != nil {
			r.mu.Unlock()
			return ErrUnknownMember
		}
		old := r.in
		if old == nil {
			r.admitted(in)
			r.mu.Unlock()
			break
		}
		r.mu.Unlock()
		if old.instance != in.instance && t.alive(old) {
			err := fmt.Errorf("%w: %x is connected from a process that is alive", ErrDuplicateID, uint64(r.id))
			conn.Write(encodeWelcome(statusDuplicateID, err.Error()))
			return err
		}
		old.replaced.Store(true)
		old.hangUp()
		select {
		case <-old.done: // never two streams of a peer in Deliver
		case <-deadline.C:
			return errors.New("peer: messages of the connection before are still being delivered")
		}
	}
	_, err := conn.Write(encodeWelcome(statusWelcome, ""))
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		r.wentOut(in, err)
		close(in.done)
		return err
	}
	nudge(r.kick)
	return nil
}

// alive waits until an old stream is heard from, or ends, or is too quiet for a
// living sender, which pings.
func (t *Transport) alive(old *incoming) bool {
	select { // forget what was heard before
	case <-old.heard:
	default:
	}
	timer := time.NewTimer(3 * t.timing.ping)
	defer timer.Stop()
	select {
	case <-old.heard:
		return true
	case <-old.done:
		return false
	case <-timer.C:
		return old.busy.Load()
	}
}

// receive delivers messages until the connection ends, and returns why.
func (r *remote) receive(conn net.Conn, in *incoming) error {
	t := r.t
	rd := bufio.NewReaderSize(conn, 64<<10)
	var buf, pong []byte
	var msgs [][]byte
	for {
		if err := conn.SetReadDeadline(time.Now().Add(t.timing.silence)); err != nil {
			return err
		}
		typ, body, err := readFrame(rd, buf, t.cfg.FrameBytesMax)
		if err != nil {
			return timeout(err)
		}
		nudge(in.heard)
		switch typ {
		case framePing:
			pong = appendFrame(pong[:0], framePong, body)
			if err := r.put(conn, pong); err != nil {
				return err
			}
		case frameBatch:
			if msgs, err = splitBatch(msgs[:0], body); err != nil {
				return err
			}
			r.count(func(s *Stats) {
				s.MessagesReceived += uint64(len(msgs))
				s.FramesReceived++
				s.BytesReceived += uint64(frameHeaderBytes + len(body))
			})
			in.busy.Store(true)
			t.cfg.Deliver(r.id, msgs)
			in.busy.Store(false)
		default:
			return violation("a frame of type %d in a stream of messages", typ)
		}
		if buf = body; cap(buf) > 4*batchBytes {
			buf = nil
		}
	}
}
