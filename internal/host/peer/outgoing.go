package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"
)

// run keeps a connection to the peer until the transport is closed, or it is no peer.
func (r *remote) run() {
	t := r.t
	wait, told := t.timing.backoffMin, ""
	for r.ctx.Err() == nil {
		conn, hangUp, err := t.dial(r.ctx, r, kindMessages)
		if err == nil {
			wait, told = t.timing.backoffMin, ""
			err = r.talk(conn, hangUp)
		}
		if r.ctx.Err() != nil {
			return
		}
		r.count(func(s *Stats) { s.LastError = err })
		// Once per reason, not once per try.
		if text := err.Error(); text != told {
			told = text
			t.cfg.Logger.Warn("peer: no connection to member, trying again", "member", hex(r.id), "address", r.addr, "error", err)
			var refusal *Refusal
			if f := t.cfg.Refused; f != nil && errors.As(err, &refusal) {
				t.events.add(func() { f(r.id, err) })
			}
		}
		timer := time.NewTimer(rand.N(wait) + 1)
		select {
		case <-timer.C:
			wait = min(2*wait, t.timing.backoffMax)
		case <-r.kick:
			wait = t.timing.backoffMin
		case <-r.ctx.Done():
		}
		timer.Stop()
	}
}

// talk sends messages until the connection ends, and returns why.
func (r *remote) talk(conn net.Conn, hangUp func()) error {
	t := r.t
	ctx, end := context.WithCancelCause(r.ctx)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		end(r.listen(conn))
		hangUp() // the writer may be waiting for the other side
	}()
	t.cfg.Logger.Info("peer: connected to member", "member", hex(r.id), "address", r.addr)
	r.opened()
	unwritten, err := r.write(ctx, conn)
	end(err)
	hangUp()
	<-heard
	err = context.Cause(ctx) // whichever end saw it first
	r.closed(err, unwritten)
	return err
}

// write sends what is in the queue, and pings. It returns how many messages it
// had taken and not sent.
func (r *remote) write(ctx context.Context, conn net.Conn) (int, error) {
	ping := time.NewTicker(r.t.timing.ping)
	defer ping.Stop()
	limit := min(batchBytes, r.t.cfg.FrameBytesMax)
	var buf []byte
	var msgs [][]byte
	pinging := true // at once: the first round trip is known soon
	for {
		if pinging {
			var now [8]byte
			le.PutUint64(now[:], uint64(time.Since(r.t.start)))
			buf = appendFrame(buf[:0], framePing, now[:])
			if err := r.put(conn, buf); err != nil {
				return 0, err
			}
			pinging = false
		}
		select {
		case <-r.ready:
		case <-ping.C:
			pinging = true
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		msgs = r.take(msgs)
		for left := msgs; len(left) > 0; {
			var n int
			buf, n = appendBatch(buf[:0], left, limit)
			if err := r.put(conn, buf); err != nil {
				return len(left), err
			}
			r.wrote(left[:n], len(buf))
			left = left[n:]
		}
		clear(msgs) // the garbage collector may have them
		if cap(buf) > 4*batchBytes {
			buf = nil
		}
		if cap(msgs) > 1<<16 {
			msgs = nil
		}
	}
}

// put writes a frame within the time that its size justifies.
func (r *remote) put(conn net.Conn, frame []byte) error {
	limit := r.t.timing.silence + time.Duration(len(frame)/batchBytes)*time.Second
	if err := conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := conn.Write(frame)
	return timeout(err)
}

// listen reads the answers to pings from an outgoing connection.
func (r *remote) listen(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 256)
	buf := make([]byte, 8)
	for {
		if err := conn.SetReadDeadline(time.Now().Add(r.t.timing.silence)); err != nil {
			return err
		}
		typ, body, err := readFrame(in, buf, len(buf))
		if err != nil {
			return timeout(err)
		}
		if typ != framePong || len(body) != 8 {
			return violation("a frame of type %d where only answers to pings belong", typ)
		}
		rtt := time.Since(r.t.start) - time.Duration(le.Uint64(body))
		if rtt < 0 {
			return violation("an answer to a ping that was not sent")
		}
		r.count(func(s *Stats) {
			if s.RTT == 0 {
				s.RTT = rtt
			}
			s.RTT += (rtt - s.RTT) / 8
		})
	}
}

// timeout gives a passed deadline its name.
func timeout(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("peer: %w", errTooQuiet)
	}
	return err
}
