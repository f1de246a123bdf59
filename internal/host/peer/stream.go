package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

const (
	chunkBytes      = 256 << 10
	streamHeaderMax = 64 << 10
	verdictBytesMax = 4 << 10
	// stallFactor times the silence of messages is how long a bulk stream may
	// stand still: disks stall longer than networks.
	stallFactor = 6
)

// sourceError tells an error of the caller's reader from one of the connection.
type sourceError struct{ error }

// SendStream sends all of src to a peer's Stream function, over a connection of its own,
// and returns the result of that function. The result is nil once the function has taken
// all of src, else an error that matches errRejected. An error of src is returned as it is,
// and the receiver is told. ctx bounds the whole, the wait for the receiver's verdict
// included. It ends as well when the receiver's process is found to have ended: see Down.
// Streams to one peer take turns.
func (t *Transport) SendStream(ctx context.Context, to machine.NodeID, header []byte, src io.Reader) error {
	r := t.remote(to)
	if r == nil {
		return fmt.Errorf("peer: no member %x: %w", uint64(to), ErrUnknownMember)
	}
	if len(header) > streamHeaderMax {
		return fmt.Errorf("peer: stream header of %d bytes, %d are the limit", len(header), streamHeaderMax)
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	life := r.life
	r.mu.Unlock()
	defer context.AfterFunc(life, cancel)()
	r.count(func(s *Stats) { s.StreamsSending++ })
	err := r.stream(ctx, header, src)
	r.count(func(s *Stats) {
		s.StreamsSending--
		if err == nil {
			s.StreamsSent++
		} else {
			s.StreamsUnsent++
		}
	})
	switch {
	case err == nil:
		return nil
	case caller.Err() != nil:
		return caller.Err()
	case t.ctx.Err() != nil:
		return ErrClosed
	case r.ctx.Err() != nil:
		return fmt.Errorf("peer: member %x: %w", uint64(to), ErrUnknownMember)
	case life.Err() != nil:
		return fmt.Errorf("peer: stream to member %x: %w", uint64(to), context.Cause(life))
	}
	return err
}

// stream does the work of SendStream.
func (r *remote) stream(ctx context.Context, header []byte, src io.Reader) error {
	select {
	case r.bulkOut <- struct{}{}:
		defer func() { <-r.bulkOut }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, hangUp, err := r.t.dial(ctx, r, kindBulk)
	if err != nil {
		return err
	}
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)()

	// The verdict may come before all is sent; then there is no use in going on.
	sent := make(chan error, 1)
	go func() {
		err := r.sendBulk(ctx, conn, header, src)
		if err != nil {
			// If the receiver said why, it is on its way already.
			conn.SetReadDeadline(time.Now().Add(r.t.timing.silence))
		}
		sent <- err
	}()
	verdict := readVerdict(conn)
	hangUp()
	var source sourceError
	if err := <-sent; errors.As(err, &source) {
		return source.error
	}
	if verdict != nil {
		return fmt.Errorf("peer: stream to member %x: %w", uint64(r.id), verdict)
	}
	return nil
}

// sendBulk writes the header, src and an end.
func (r *remote) sendBulk(ctx context.Context, conn net.Conn, header []byte, src io.Reader) error {
	write := func(frame []byte) error {
		if err := conn.SetWriteDeadline(time.Now().Add(stallFactor * r.t.timing.silence)); err != nil {
			return err
		}
		_, err := conn.Write(frame)
		return timeout(err)
	}
	if err := write(appendFrame(nil, frameHeader, header)); err != nil {
		return err
	}
	chunk := make([]byte, chunkBytes)
	var buf []byte
	start, total := time.Now(), 0
	for {
		n, err := fill(src, chunk)
		if n > 0 {
			buf = appendFrame(buf[:0], frameChunk, chunk[:n])
			if err := write(buf); err != nil {
				return err
			}
			total += n
			r.count(func(s *Stats) { s.StreamBytesSent += uint64(n) })
		}
		switch {
		case err == io.EOF:
			return write(appendFrame(nil, frameEnd, nil))
		case err != nil:
			write(appendFrame(nil, frameAbort, clip(err.Error())))
			return sourceError{err}
		}
		if rate := r.t.cfg.StreamBytesPerSecond; rate > 0 {
			due := start.Add(time.Duration(float64(total) / float64(rate) * float64(time.Second)))
			if err := sleep(ctx, time.Until(due)); err != nil {
				return err
			}
		}
	}
}

// fill reads until b is full, and returns the source's own error: io.ReadFull has one name for a
// source that ends and one that was cut off.
func fill(src io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = src.Read(b[n:])
		n += more
	}
	return n, err
}

func readVerdict(conn net.Conn) error {
	typ, body, err := readFrame(conn, nil, verdictBytesMax)
	switch {
	case err != nil:
		return timeout(noEOF(err))
	case typ != frameVerdict:
		return violation("a frame of type %d where a verdict belongs", typ)
	case len(body) > 0:
		return fmt.Errorf("%w: %s", errRejected, body)
	}
	return nil
}

func clip(s string) []byte { return []byte(s[:min(len(s), verdictBytesMax)]) }

// serveBulk hands an incoming stream to the Stream function, sends back what it
// says and gives the peer's token back.
func (t *Transport) serveBulk(conn net.Conn, r *remote) {
	r.count(func(s *Stats) { s.StreamsReceiving++ })
	in := &bulkReader{conn: conn, rd: bufio.NewReader(conn), r: r}
	header, err := in.header()
	if err == nil {
		err = t.cfg.Stream(r.id, header, in)
	}
	if err == nil { // what it left must still be good
		_, err = io.Copy(io.Discard, in)
	}
	r.count(func(s *Stats) {
		s.StreamsReceiving--
		if err == nil {
			s.StreamsReceived++
		} else {
			s.StreamsUnreceived++
		}
	})
	<-r.bulkIn // before the verdict, after which the sender may send the next
	text := ""
	if err != nil {
		text = "failed: " + err.Error()
		t.cfg.Logger.Warn("peer: stream from member failed", "member", hex(r.id), "error", err)
	}
	conn.SetDeadline(time.Now().Add(t.timing.silence))
	if _, err := conn.Write(appendFrame(nil, frameVerdict, clip(text))); err != nil {
		return
	}
	// Closing with bytes unread would reset the connection and with it destroy
	// the verdict on its way. The sender hangs up when it has it.
	io.Copy(io.Discard, conn)
}

// bulkReader reads the body of a bulk stream.
type bulkReader struct {
	conn  net.Conn
	rd    *bufio.Reader
	r     *remote
	buf   []byte
	chunk []byte // what is left of buf
	err   error
}

func (b *bulkReader) frame(limit int) (frameType, []byte, error) {
	if err := b.conn.SetReadDeadline(time.Now().Add(stallFactor * b.r.t.timing.silence)); err != nil {
		return 0, b.buf, err
	}
	typ, body, err := readFrame(b.rd, b.buf, limit)
	return typ, body, timeout(noEOF(err))
}

func (b *bulkReader) header() ([]byte, error) {
	typ, header, err := b.frame(streamHeaderMax)
	if err == nil && typ != frameHeader {
		err = violation("a stream starts with a frame of type %d", typ)
	}
	return header, err
}

func (b *bulkReader) Read(p []byte) (int, error) {
	for len(b.chunk) == 0 && b.err == nil {
		b.err = b.next()
	}
	if len(b.chunk) == 0 {
		return 0, b.err
	}
	n := copy(p, b.chunk)
	b.chunk = b.chunk[n:]
	return n, nil
}

func (b *bulkReader) next() error {
	typ, body, err := b.frame(chunkBytes)
	b.buf = body
	switch {
	case err != nil:
		return err
	case typ == frameChunk:
		b.chunk = body
		b.r.count(func(s *Stats) { s.StreamBytesReceived += uint64(len(body)) })
		return nil
	case typ == frameEnd:
		return io.EOF
	case typ == frameAbort:
		return fmt.Errorf("peer: the sender gave up: %s", body)
	}
	return violation("a frame of type %d in a bulk stream", typ)
}
